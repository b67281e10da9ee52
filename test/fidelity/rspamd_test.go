//go:build interop

package fidelity

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/fuzzy"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// A recorder is a fuzzy storage that knows nothing and remembers what it was asked.
type recorder struct {
	conn  *net.UDPConn
	mu    sync.Mutex
	asked []rspamd.Hash
}

func startRecorder(t *testing.T) *recorder {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{conn: conn}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.serve(t)
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return r
}

// serve answers each check with "not found", until the socket is closed.
func (r *recorder) serve(t *testing.T) {
	var buf [8192]byte
	for {
		n, from, err := r.conn.ReadFromUDP(buf[:])
		if err != nil {
			return
		}
		var req fuzzy.Request
		if err := fuzzy.ParseRequest(buf[:n], &req); err != nil {
			t.Errorf("rspamd asks %x: %v", buf[:n], err)
			continue
		}
		hash := rspamd.Hash{Digest: req.Digest}
		if req.Shingled {
			hash.Shingles = &req.Shingles
		}
		r.mu.Lock()
		r.asked = append(r.asked, hash)
		r.mu.Unlock()
		reply := fuzzy.Reply{Tag: req.Tag, Digest: req.Digest}
		if _, err := r.conn.WriteToUDP(req.AppendReply(nil, &reply), from); err != nil {
			t.Errorf("answer to rspamd: %v", err)
		}
	}
}

// take returns what was asked since the last call.
func (r *recorder) take() []rspamd.Hash {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := r.asked
	r.asked = nil
	return asked
}

// A checker is an rspamd with nothing but fuzzy_check, as it is shipped.
type checker struct {
	port  int
	asked *recorder
}

func startChecker(t *testing.T) *checker {
	t.Helper()
	path := nodetest.Program(t, "rspamd")
	dir := t.TempDir()
	c := &checker{port: nodetest.FreePort(t), asked: startRecorder(t)}
	observe := ""
	if os.Getenv("BULKHEAD_OBSERVED") != "" {
		here, err := filepath.Abs("observe.lua")
		if err != nil {
			t.Fatal(err)
		}
		observe = fmt.Sprintf("lua = %q;", here)
	}
	config := fmt.Sprintf(`
options {
  pidfile = "%[1]s/pid"; filters = "fuzzy_check"; tempdir = "%[1]s"; history_file = "%[1]s/history"; rrd = "%[1]s/rrd";
  stats_file = "%[1]s/stats"; dynamic_conf = "%[1]s/dynamic"; hs_cache_dir = "%[1]s"; local_addrs = [];
    words_decay = 600;
  url_tld = "/usr/share/rspamd/effective_tld_names.dat"; allow_raw_input = true;
  dns { nameserver = ["127.0.0.1:1"]; timeout = 0.1s; retransmits = 1; }
  task_timeout = 120s;
}
logging { type = "console"; level = "error"; }
worker "normal" { bind_socket = "127.0.0.1:%[2]d"; count = 1; }
fuzzy_check {
  min_bytes = 1k; timeout = 20s; retransmits = 1;
  rule "recorder" {
    algorithm = "mumhash"; servers = "%[3]s"; symbol = "FUZZY_UNKNOWN"; mime_types = ["*"]; max_score = 20.0;
      read_only = yes;
    skip_unknown = yes; short_text_direct_hash = true; min_length = 64;
      fuzzy_map = { FUZZY_DENIED { max_score = 20.0; flag = 1; } }
  }
}
%[4]s
`, dir, c.port, c.asked.conn.LocalAddr(), observe)
	file := filepath.Join(dir, "rspamd.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-i", "-f", "-c", file)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard // broken mails make it talk
	nodetest.Start(t, cmd)
	return c
}

// await waits until the checker listens: it prepares its tables of languages first, which
// takes seconds of processor time.
func (c *checker) await(t *testing.T) {
	t.Helper()
	var last error
	if !await.Within(5*time.Minute, func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", c.port))
		if last = err; err == nil {
			conn.Close()
		}
		return err == nil
	}) {
		t.Fatalf("rspamd does not listen: %v", last)
	}
}

// check returns the hashes that rspamd asks for about a mail, none twice.
func (c *checker) check(t *testing.T, s *sample) []rspamd.Hash {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		fmt.Sprintf("http://127.0.0.1:%d/checkv2", c.port), bytes.NewReader(s.raw(t)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Sample", s.name)
	c.asked.take()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Errorf("%s: %v", s.name, err)
		return nil
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("%s: rspamd answers %s %.200q, %v", s.name, res.Status, body, err)
	}
	var once []rspamd.Hash
	for _, h := range c.asked.take() {
		if indexHash(once, &h) < 0 {
			once = append(once, h)
		}
	}
	return once
}

// indexHash returns where the digest of h is in all, -1 if it is not.
func indexHash(all []rspamd.Hash, h *rspamd.Hash) int {
	return slices.IndexFunc(all, func(other rspamd.Hash) bool { return other.Digest == h.Digest })
}

// TestRspamd compares our digests and shingles with those that rspamd asks a storage for.
func TestRspamd(t *testing.T) {
	nodetest.Program(t, "rspamd")
	mails := append(real(t, 15), made(t, 4)...)
	// Two instances of rspamd may ask for different digests: where it guesses a language, it draws
	// words at random.
	var asked [2][][]rspamd.Hash
	var checkers sync.WaitGroup
	for w := range asked {
		asked[w] = make([][]rspamd.Hash, len(mails))
		c := startChecker(t)
		c.await(t)
		checkers.Go(func() {
			for i := range mails {
				asked[w][i] = c.check(t, &mails[i])
			}
		})
	}
	checkers.Wait()
	theirs, again := asked[0], asked[1]
	hasher := rspamd.NewHasher("", "", rspamd.MumHash)
	const languages = "/usr/share/rspamd/languages"
	list, err := os.Open(languages + "/stop_words")
	if err == nil {
		err = errors.Join(hasher.ReadStopWords(list), hasher.ReadModel(os.DirFS(languages)))
		list.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	digests := newTally(t, "rspamd digests", map[string]float64{"": 0.92, "made": 0.28})
	found := newTally(t, "rspamd's own digests", map[string]float64{"": 0.96, "made": 0.44})
	shingles := newTally(t, "rspamd shingles", map[string]float64{"": 0.97, "made": 0.66})
	whole := newTally(t, "rspamd mails", map[string]float64{"": 0.95, "made": 0.46})
	itself := newTally(t, "rspamd mails, by another rspamd", map[string]float64{"": 0.95, "made": 0.85})
	start := time.Now()
	for i := range mails {
		s := &mails[i]
		ours, err := hasher.Hashes(t.Context(), s.raw(t), rspamd.Policy{AllTypes: true})
		if err != nil {
			t.Fatal(err)
		}
		equal := true
		for _, h := range theirs[i] {
			at := indexHash(ours, &h)
			digests.compare(s.source, s.name, at >= 0, "%s is missing", show(&h))
			found.compare(s.source, s.name, at >= 0, "%s is missing", show(&h))
			equal = equal && at >= 0
			if h.Shingles != nil {
				shingles.compareShingles(s, h.Shingles, ours)
			}
		}
		for _, h := range ours {
			if at := indexHash(theirs[i], &h); at < 0 {
				digests.compare(s.source, s.name, false, "%s is too much", show(&h))
				equal = false
			}
		}
		whole.compare(s.source, s.name, equal, "%d hashes, rspamd has %d", len(ours), len(theirs[i]))
		differs := func(h rspamd.Hash) bool { return indexHash(theirs[i], &h) < 0 }
		itself.compare(s.source, s.name, len(again[i]) == len(theirs[i]) && !slices.ContainsFunc(again[i], differs),
			"%d hashes, and %d", len(theirs[i]), len(again[i]))
	}
	t.Logf("our part took %v", time.Since(start).Round(time.Millisecond))
	digests.report()
	found.report()
	shingles.report()
	whole.report()
	itself.report()
}

// compareShingles counts each shingle of a text as a case, against the text of ours that is
// nearest.
func (c *tally) compareShingles(s *sample, theirs *[rspamd.Shingles]uint64, ours []rspamd.Hash) {
	var best [rspamd.Shingles]bool
	most := -1
	for _, h := range ours {
		if h.Shingles == nil {
			continue
		}
		var equal [rspamd.Shingles]bool
		n := 0
		for i := range theirs {
			if equal[i] = theirs[i] == h.Shingles[i]; equal[i] {
				n++
			}
		}
		if n > most {
			best, most = equal, n
		}
	}
	for i := range best {
		c.compare(s.source, s.name, best[i], "shingle %d, %d agree", i, most)
	}
}

func show(h *rspamd.Hash) string {
	kind := "digest"
	if h.Shingles != nil {
		kind = "digest with shingles"
	}
	return strings.TrimSpace(fmt.Sprintf("%s %x", kind, h.Digest[:8]))
}
