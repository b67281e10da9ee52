//go:build interop

package fuzzydcc

import (
	"encoding/binary"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/fuzzy"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// needNewest skips a test of what rspamd has since 4.1.
func needNewest(t *testing.T) {
	t.Helper()
	version := nodetest.Output(t, "", nodetest.Program(t, "rspamd"), "--version")
	found := regexp.MustCompile(`version (\d+)\.(\d+)`).FindStringSubmatch(version)
	if found == nil {
		t.Fatalf("rspamd --version prints %q", version)
	}
	major, _ := strconv.Atoi(found[1])
	minor, _ := strconv.Atoi(found[2])
	if major < 4 || major == 4 && minor < 1 {
		t.Skipf("rspamd %d.%d lacks it", major, minor)
	}
}

// startStorage runs a node with a storage, and returns its port.
func startStorage(t *testing.T, config string) int {
	t.Helper()
	port := nodetest.FreePort(t)
	startNode(t, fmt.Sprintf("[listen]\nhttp = \"127.0.0.1:%d\"\nfuzzy = \"127.0.0.1:%d\"\n%s", nodetest.FreePort(t), port,
		config))
	nodetest.AwaitTCP(t, fmt.Sprintf("127.0.0.1:%d", port))
	return port
}

// startKeyed runs a storage that takes encrypted requests alone. It returns the line of a rule that names the key.
func startKeyed(t *testing.T) (port int, rule string) {
	t.Helper()
	pair, err := fuzzy.NewKeyPair(nil)
	if err != nil {
		t.Fatal(err)
	}
	port = startStorage(t, fmt.Sprintf("[fuzzy]\nencrypted_only = true\nupdate_from = []\n[[fuzzy.keys]]\nsecret = %q\n"+
		"name = \"rspamd\"\nupdate = true\n", fuzzy.EncodeBase32(pair.Secret[:])))
	return port, fmt.Sprintf("encryption_key = %q;", fuzzy.EncodeBase32(pair.Public[:]))
}

// expect checks which of the symbols of fuzzyModule a message has.
func (r *rspamd) expect(message string, names ...string) {
	r.t.Helper()
	var found []string
	symbols := r.scan(message)
	for _, name := range []string{"FUZZY_DENIED", "FUZZY_PROB", "FUZZY_WHITE"} {
		if symbols[name].Options != nil {
			found = append(found, name)
		}
	}
	if !slices.Equal(found, names) {
		r.t.Errorf("found %q, want %q; symbols %v", found, names, symbols)
	}
}

// TestRspamdSeveralLists: a digest is on several lists, and its near copies too; it leaves one of them alone.
func TestRspamdSeveralLists(t *testing.T) {
	needNewest(t)
	r := startRspamd(t, "fuzzy_check", fuzzyModule(startStorage(t, ""), ""))
	spam := mail("seed", "1", gardenText)
	near := mail("seed", "2", strings.ReplaceAll(gardenText, "grandmother", "uncle"))
	r.learn("/fuzzyadd", spam, 1, 10)
	r.expect(spam, "FUZZY_DENIED")
	r.learn("/fuzzyadd", spam, 2, 5)
	r.expect(spam, "FUZZY_DENIED", "FUZZY_PROB")
	r.expect(near, "FUZZY_DENIED", "FUZZY_PROB")
	r.learn("/fuzzydel", spam, 1, 0)
	if r.scan(spam)["FUZZY_DENIED"].Options != nil {
		t.Errorf("a deleted digest is found")
	}
}

// TestRspamdTCP: the same requests over a connection, encrypted. Nothing listens for datagrams at that address, so
// that what is found came over the connection.
func TestRspamdTCP(t *testing.T) {
	needNewest(t)
	port, key := startKeyed(t)
	wire := nodetest.NewWire(t, fmt.Sprintf("127.0.0.1:%d", port))
	_, text, _ := net.SplitHostPort(wire.Address())
	listens, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	r := startRspamd(t, "fuzzy_check", fuzzyModule(listens, key+" tcp = true;"))
	direct := startRspamd(t, "fuzzy_check", fuzzyModule(port, key))
	spam := mail("seed", "1", gardenText)
	direct.learn("/fuzzyadd", spam, 1, 10)
	nodetest.Await(t, "found over a connection", func() bool { // the first requests are datagrams
		return r.scan(spam)["FUZZY_DENIED"].Options != nil
	})
	for i := range 30 {
		r.expect(spam, "FUZZY_DENIED")
		r.expect(mail("other", fmt.Sprint(i), strings.ReplaceAll(gardenText, "e", fmt.Sprint(i))))
	}
}

// A relay passes datagrams to a storage and back, and keeps the requests.
type relay struct {
	port int
	mu   sync.Mutex
	kept [][]byte
}

func startRelay(t *testing.T, storage int) *relay {
	t.Helper()
	front, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{port: front.LocalAddr().(*net.UDPAddr).Port}
	var done sync.WaitGroup
	done.Go(func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := front.ReadFromUDP(buf)
			if err != nil {
				return
			}
			r.mu.Lock()
			r.kept = append(r.kept, slices.Clone(buf[:n]))
			r.mu.Unlock()
			back, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: storage})
			if err != nil {
				return
			}
			back.Write(buf[:n])
			back.SetReadDeadline(time.Now().Add(nodetest.Patience))
			if n, err = back.Read(buf); err == nil {
				front.WriteToUDP(buf[:n], from)
			}
			back.Close()
		}
	})
	t.Cleanup(func() {
		front.Close()
		done.Wait()
	})
	return r
}

func (r *relay) requests() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.kept)
}

// TestRspamdSenderFacts: requests with facts about the sender are answered, and have the length of the specification.
func TestRspamdSenderFacts(t *testing.T) {
	needNewest(t)
	port, key := startKeyed(t)
	through := startRelay(t, port)
	r := startRspamd(t, "fuzzy_check", fuzzyModule(through.port, key))
	spam := mail("seed", "1", gardenText)
	r.learn("/fuzzyadd", spam, 1, 10)
	const plain = 84 + 76 + 256
	before := len(through.requests())
	symbols := r.scan(spam, "IP", "192.0.2.77", "From", "ida@garden.example", "Hostname", "mail.garden.example")
	if symbols["FUZZY_DENIED"].Options == nil {
		t.Errorf("symbols with facts about the sender: %v", symbols)
	}
	all := through.requests()[before:]
	if len(all) == 0 {
		t.Fatal("there was no request")
	}
	// Domain "garden.example", address, facts.
	if want := plain + 2 + 14 + 1 + 4 + 2 + 4; len(all[0]) != want {
		t.Errorf("the request has %d bytes, want %d", len(all[0]), want)
	}
}

// TestRspamdVersions: a client that has seen a long reply sends version 5, and is understood.
func TestRspamdVersions(t *testing.T) {
	needNewest(t)
	through := startRelay(t, startStorage(t, ""))
	r := startRspamd(t, "fuzzy_check", fuzzyModule(through.port, ""))
	spam := mail("seed", "1", gardenText)
	r.learn("/fuzzyadd", spam, 1, 10)
	for range 3 {
		r.expect(spam, "FUZZY_DENIED")
	}
	var versions []byte
	for _, q := range through.requests() {
		versions = append(versions, q[0])
		if binary.LittleEndian.Uint32(q[8:]) == 0 {
			t.Errorf("a tag of 0: % x", q[:12])
		}
	}
	if versions[0] != 0x14 || versions[len(versions)-1] != 5 {
		t.Errorf("versions % x, want 14 first and 5 last", versions)
	}
}

// TestRspamdWriteOnly: a rule that only writes teaches others and asks nothing.
func TestRspamdWriteOnly(t *testing.T) {
	needNewest(t)
	port := startStorage(t, "")
	through := startRelay(t, port)
	writes := startRspamd(t, "fuzzy_check", strings.Replace(fuzzyModule(through.port, ""), "read_only = no;",
		"mode = \"write_only\";", 1))
	reads := startRspamd(t, "fuzzy_check", fuzzyModule(port, ""))
	spam := mail("seed", "1", gardenText)
	writes.learn("/fuzzyadd", spam, 1, 10)
	writes.expect(spam)
	reads.expect(spam, "FUZZY_DENIED")
	for _, q := range through.requests() {
		if fuzzy.Command(q[1]) != fuzzy.Write {
			t.Errorf("a rule that only writes sends %v", fuzzy.Command(q[1]))
		}
	}
}

// TestRspamdSplitServers: a rule that writes to one storage and asks another.
func TestRspamdSplitServers(t *testing.T) {
	needNewest(t)
	asked, written := startStorage(t, ""), startStorage(t, "")
	// Rspamd 4.1.5 does not start if such a rule has a max_score of its own.
	split := startRspamd(t, "fuzzy_check", strings.NewReplacer("servers =",
		fmt.Sprintf("write_servers = \"127.0.0.1:%d\"; read_servers =", written),
		"symbol = \"FUZZY_UNKNOWN\"; max_score = 20.0;", "symbol = \"OTHER\";").Replace(fuzzyModule(asked, "")))
	spam := mail("seed", "1", gardenText)
	split.learn("/fuzzyadd", spam, 1, 10)
	split.expect(spam)
	startRspamd(t, "fuzzy_check", fuzzyModule(written, "")).expect(spam, "FUZZY_DENIED")
	startRspamd(t, "fuzzy_check", fuzzyModule(asked, "")).learn("/fuzzyadd", spam, 2, 10)
	split.expect(spam, "FUZZY_PROB")
}

// TestRspamdPing: rspamadm fuzzy_ping has each of its pings answered, plain and encrypted.
func TestRspamdPing(t *testing.T) {
	needNewest(t)
	port, key := startKeyed(t)
	for _, r := range []*rspamd{startRspamd(t, "fuzzy_check", fuzzyModule(port, key)),
		startRspamd(t, "fuzzy_check", fuzzyModule(startStorage(t, ""), ""))} {
		out := nodetest.Output(t, "", nodetest.Program(t, "rspamadm"), "fuzzy_ping", "-c", r.Config, "-r", "bulkhead",
			"-n", "5", "-t", "60")
		if !strings.Contains(out, "5 packets transmitted, 5 packets received, 0.0% packet loss") {
			t.Errorf("fuzzy_ping prints %q", out)
		}
	}
}

// TestRspamdSRV: a client finds the storage by the SRV record of a domain.
func TestRspamdSRV(t *testing.T) {
	needNewest(t)
	port := startStorage(t, "")
	dns := nodetest.ServeDNS(t, map[string][]string{
		"SRV _fuzzy._tcp.storage.example": {fmt.Sprintf("one.storage.example:%d", port)},
		"A one.storage.example":           {"127.0.0.1"},
	})
	r := startRspamdWith(t, dns.Address, "fuzzy_check", strings.Replace(fuzzyModule(port, ""),
		fmt.Sprintf("\"127.0.0.1:%d\"", port), "\"service=fuzzy+storage.example\"", 1))
	spam := mail("seed", "1", gardenText)
	nodetest.Await(t, "the storage", func() bool {
		return r.control("/fuzzyadd", spam, "Flag", "1", "Weight", "10")
	})
	nodetest.Await(t, "found", func() bool { return r.scan(spam)["FUZZY_DENIED"].Options != nil })
}

// styledLetter is a page of some depth, with links and classes.
func styledLetter(id, greeting, extra string) string {
	return "From: Ida <ida@garden.example>\nTo: reader@farm.example\nSubject: seed\n" +
		"Date: Mon, 02 Mar 2026 09:15:00 +0000\nMessage-ID: <" + id + "@garden.example>\nMIME-Version: 1.0\n" +
		"Content-Type: text/html; charset=utf-8\n\n<html><body><table class=\"outer\"><tr><td>" +
		"<div class=\"head\"><h1>" + greeting + "</h1></div><div class=\"main\"><p>" + greeting + "</p><ul>" +
		"<li>one</li><li>two</li><li>three</li></ul>" + extra +
		"<a class=\"button\" href=\"https://shop.garden.example/a\">open</a><table class=\"inner\"><tr><td>" +
		"<img src=\"https://shop.garden.example/i.png\"></td><td><b>seed</b></td></tr></table><p class=\"foot\">" +
		"<a href=\"https://farm.example/b\">more</a> <span>end</span></p></div></td></tr></table></body></html>\n"
}

// TestRspamdStructure: the structure of a page is learnt and found, exact and nearly equal, whatever its text.
func TestRspamdStructure(t *testing.T) {
	needNewest(t)
	r := startRspamd(t, "fuzzy_check", fuzzyModule(startStorage(t, ""), "html_shingles = true; min_html_tags = 5;"))
	r.learn("/fuzzyadd", styledLetter("1", "good morning", ""), 1, 10)
	kinds := func(message string) (kinds []string) {
		for _, option := range r.scan(message)["FUZZY_DENIED"].Options {
			kinds = append(kinds, strings.Split(option, ":")[3])
		}
		return kinds
	}
	if got := kinds(styledLetter("2", "good evening to all of you", "")); !slices.Contains(got, "html") {
		t.Errorf("the same structure with another text: %q", got)
	}
	if got := kinds(styledLetter("3", "nothing new", "<p>another</p>")); !slices.Contains(got, "html") {
		t.Errorf("nearly the same structure: %q", got)
	}
	if got := kinds(mail("seed", "4", gardenText)); got != nil {
		t.Errorf("plain text: %q", got)
	}
}
