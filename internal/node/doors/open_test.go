package doors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
	"github.com/bulkhead-mail/bulkhead/internal/ratelimit"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
	"github.com/bulkhead-mail/bulkhead/internal/web"
)

// mails reads every message as one signature and one verified sender.
type mails struct{}

func (mails) Read(ctx context.Context, raw []byte) ([]bulkhead.Signature, bulkhead.Source, error) {
	return mails{}.ReadVerified(ctx, raw, "", nil, "")
}

func (mails) ReadSigned(ctx context.Context, raw []byte, dkim []string) ([]bulkhead.Signature, bulkhead.Source,
	error) {
	return mails{}.ReadVerified(ctx, raw, "", dkim, "")
}

func (mails) ReadVerified(_ context.Context, raw []byte, sender string, dkim []string,
	spf string) ([]bulkhead.Signature, bulkhead.Source, error) {
	if len(raw) == 0 {
		return nil, bulkhead.Source{}, bulkhead.ErrMalformed
	}
	return []bulkhead.Signature{bulkhead.MustSignature(bulkhead.Exact, raw[:1])},
		bulkhead.Source{Sender: sender, DKIM: append(dkim, spf)}, nil
}

func (mails) Features(context.Context, []byte) ([]string, error) { return nil, nil }

func (mails) Cleared(context.Context, []byte, string, netip.Addr, bool) (bool, error) {
	return false, nil
}

type blank struct{}

func (blank) Status(context.Context) web.Status { return web.Status{} }

// rig returns what the doors of a node share, and its log.
func rig(t *testing.T, cfg *config.Config) (Options, *logtest.Log) {
	t.Helper()
	limits, err := ratelimit.Open(ratelimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set, err := lists.OpenSet(lists.SetOptions{Watch: -1})
	if err != nil {
		t.Fatal(err)
	}
	log, reg := new(logtest.Log), prometheus.NewRegistry()
	house := bulkhead.CounterOf(prototest.NewTally(2))
	return Options{
		Config: func() *config.Config { return cfg }, Dir: t.TempDir(), LocalAdmin: "root",
		Clearinghouse: func(string) bulkhead.Counter { return house }, Judge: house, Messages: mails{},
		Whitelisted: func(*bulkhead.Source, []bulkhead.Signature) bool { return false }, Accounts: &secrets{},
		Limits: limits, Lists: set, API: api.Options{Read: mails{}.ReadSigned, Registry: reg}, Status: blank{},
		Memory: door.NewMemory(64 << 20), Failures: new(door.Failures), Registry: reg,
		Log: log.Logger(),
	}, log
}

// listening returns the default configuration with only the named doors, each at an address.
func listening(address string, doors ...string) *config.Config {
	cfg := config.Default()
	cfg.Listen = config.Listen{}
	for _, key := range doors {
		listen(cfg, key, address)
	}
	return cfg
}

// everywhere returns the default configuration with all doors, each at a port that no other program gets.
func everywhere(t *testing.T) *config.Config {
	cfg := config.Default()
	for _, key := range doorKeys() {
		listen(cfg, key, ownAddress(t))
	}
	return cfg
}

func ownAddress(t *testing.T) string { return fmt.Sprint("127.0.0.1:", nodetest.FreePort(t)) }

func listen(cfg *config.Config, key, address string) {
	*map[string]*string{
		"http": &cfg.Listen.HTTP, "razor2": &cfg.Listen.Razor2, "razor_helper": &cfg.Listen.RazorHelper,
		"pyzor": &cfg.Listen.Pyzor, "pyzor_helper": &cfg.Listen.PyzorHelper, "dcc": &cfg.Listen.DCC,
		"dccifd": &cfg.Listen.Dccifd, "fuzzy": &cfg.Listen.Fuzzy, "milter": &cfg.Listen.Milter,
		"policy": &cfg.Listen.Policy, "dnsbl": &cfg.Listen.DNSBL,
	}[key] = address
}

// ask sends a request and returns what a server sends back until it waits or ends.
func ask(t *testing.T, network, address, request string) string {
	t.Helper()
	c, err := net.Dial(network, strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Error(err)
		return ""
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		t.Error(err)
	}
	answer := make([]byte, 4096)
	n, err := c.Read(answer)
	if err != nil {
		t.Error(err)
	}
	return string(answer[:n])
}

// TestOpen opens all doors, asks at them, and compares their names, addresses, counters and metrics. They end with
// their context, and leave their ports.
func TestOpen(t *testing.T) {
	var keys []string
	for _, d := range new(Set).list() {
		keys = append(keys, d.key)
	}
	cfg := everywhere(t)
	cfg.Dccifd.Greylist = true
	o, _ := rig(t, cfg)
	s := new(Set)
	if err := s.Open(t.Context(), o, false); err != nil {
		t.Fatal(err)
	}
	var names []string
	at := make(map[string]string)
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	for _, d := range s.All() {
		names = append(names, d.Name)
		at[d.Name] = d.Address
		serving.Go(func() {
			if err := d.Serve(ctx); err != nil {
				t.Errorf("%s: %v", d.Name, err)
			}
		})
	}
	serving.Go(func() {
		if err := s.Watch(ctx); err != nil {
			t.Error(err)
		}
	})
	await.True(t, "a first look at the doors", func() bool {
		s.rates.mu.Lock()
		defer s.rates.mu.Unlock()
		return len(s.rates.looks) > 0
	})
	if !slices.Equal(names, keys) {
		t.Errorf("the doors are %q, want %q", names, keys)
	}
	for i, d := range s.Addresses() {
		if d.Name != keys[i] || d.Address != at[d.Name] {
			t.Errorf("door %d is %+v", i, d)
		}
	}
	const query = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x00\x00\x01\x00\x01"
	for _, tt := range []struct{ door, network, request, want string }{
		{"http", "tcp", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200 OK"},
		{"policy", "tcp", "request=smtpd_access_policy\n\n", "action=DUNNO"},
		{"pyzor", "udp", "Op: ping\nThread: 2000\nPV: 2.1\nUser: anonymous\n\n", "Code: 200"},
		{"dnsbl", "udp", query, "\x12\x34"},
		{"dnsbl", "tcp", "\x00" + string(rune(len(query))) + query, "\x12\x34"},
		{"razor2", "tcp", "", "sn="},
		{"pyzor", "udp", "Op: check\nOp-Digest: " + strings.Repeat("a", 40) + "\nThread: 2001\nPV: 2.1\nUser: anonymous\n\n",
			"Count: 0"},
	} {
		if got := ask(t, tt.network, at[tt.door], tt.request); !strings.Contains(got, tt.want) {
			t.Errorf("%s over %s answers %q, want %q", tt.door, tt.network, got, tt.want)
		}
	}
	sums := s.Sums() // policy and dnsbl have none
	if len(sums) != 9 || sums["pyzor"].Looks+sums["pyzor"].Verdicts[bulkhead.ClassUnknown] != 1 {
		t.Errorf("%d doors have sums: %+v", len(sums), sums)
	}
	answers := map[string]uint64{"http": 1, "policy": 1, "pyzor": 2, "dnsbl": 2}
	await.True(t, "the answers on the page", func() bool { // a client has its answer before it is counted
		return !slices.ContainsFunc(s.Page(time.Now()), func(d web.Door) bool { return d.Answers < answers[d.Name] })
	})
	for i, d := range s.Page(time.Now()) {
		if d.Name != keys[i] || d.Address != at[d.Name] || d.Serves == "" || d.Faults != 0 || d.Answers != answers[d.Name] &&
			d.Name != "razor2" {
			t.Errorf("the page shows %+v, want %d answers", d, answers[d.Name])
		}
	}
	cancel()
	serving.Wait()
	for key, address := range at {
		free(t, key, address)
	}
	if err := CheckGreylist(filepath.Join(o.Dir, GreylistFile)); err != nil {
		t.Errorf("the greylist is not saved: %v", err)
	}

	if now := time.Now(); s.Page(now.Add(time.Hour))[0].Rate == 0 {
		t.Error("no answers were noted to compare with")
	}
	families, err := o.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if name := f.GetName(); !strings.HasPrefix(name, "bulkhead_http") {
				text := name + " " + strings.ToLower(f.GetType().String())
				for _, l := range m.GetLabel() {
					text += fmt.Sprintf(" %s=%q", l.GetName(), l.GetValue())
				}
				got = append(got, text)
			}
		}
	}
	want, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(got, "\n") + "\n"; text != string(want) {
		t.Errorf("the metrics of all doors are\n%s\nand testdata/metrics.txt has\n%s", text, want)
	}
}

// free reports an error if a port is not free.
func free(t *testing.T, key, address string) {
	t.Helper()
	address = strings.TrimPrefix(address, "http://")
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Errorf("%s: %v", key, err)
		return
	}
	l.Close()
	p, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Errorf("%s: %v", key, err)
		return
	}
	p.Close()
}

// TestAbandon checks that doors which are never served leave their ports.
func TestAbandon(t *testing.T) {
	o, _ := rig(t, everywhere(t))
	o.Socket = filepath.Join(t.TempDir(), "socket")
	s := new(Set)
	if err := s.Open(t.Context(), o, false); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(o.Socket); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("the socket is %v, %v", info, err)
	}
	for _, d := range s.All() {
		if err := d.Abandon(); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
		free(t, d.Name, d.Address)
	}
	if c, err := net.Dial("unix", o.Socket); err == nil {
		c.Close()
		t.Error("the socket is still open")
	}
}

// TestAnyPort opens doors at ports of the system's choice, also those that need one port for two networks.
func TestAnyPort(t *testing.T) {
	o, _ := rig(t, listening("127.0.0.1:0", doorKeys()...))
	s := new(Set)
	if err := s.Open(t.Context(), o, false); err != nil {
		t.Fatal(err)
	}
	for _, d := range s.All() {
		if strings.HasSuffix(d.Address, ":0") {
			t.Errorf("%s is at %s", d.Name, d.Address)
		}
		if err := d.Abandon(); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
}

// TestTaken opens each door where another program has its port, for connections or for datagrams. A spare start leaves
// it closed, except the HTTP door, and opens the others.
func TestTaken(t *testing.T) {
	datagrams, both := []string{"pyzor", "dcc"}, []string{"fuzzy", "dnsbl"}
	for _, key := range doorKeys() {
		for _, network := range []string{"tcp", "udp"} {
			if slices.Contains(datagrams, key) != (network == "udp") && !slices.Contains(both, key) {
				continue
			}
			other, release := taken(t, network)
			for _, spare := range []bool{false, true} {
				cfg := listening("127.0.0.1:0", "policy", "milter")
				if key == "policy" || key == "milter" {
					cfg = listening("127.0.0.1:0", "pyzor", "razor2")
				}
				listen(cfg, key, other)
				o, log := rig(t, cfg)
				s := new(Set)
				err := s.Open(t.Context(), o, spare)
				skips := spare && key != "http"
				if skips != (err == nil) || !skips && !strings.Contains(err.Error(), "listen."+key) {
					t.Errorf("%s over %s, spare %v: %v", key, network, spare, err)
				}
				if skips && (len(s.All()) != 2 || !strings.Contains(log.String(), "front door not opened")) {
					t.Errorf("%s over %s: %d doors are open, and the log has\n%s", key, network, len(s.All()), log)
				}
				for _, d := range s.All() {
					d.Abandon()
				}
			}
			o, _ := rig(t, listening(other, key))
			var wrong *config.Error
			if err := new(Set).Open(t.Context(), o, true); key != "http" && (!errors.As(err, &wrong) || wrong.Key != "listen") {
				t.Errorf("%s over %s is the only door: %v", key, network, err)
			}
			release()
			free(t, key, other) // what a door had of it is given back
		}
	}
}

// taken returns an address whose port is taken in one network and free in the other, and a function that frees it.
func taken(t *testing.T, network string) (address string, release func() error) {
	t.Helper()
	address = ownAddress(t)
	if network == "tcp" {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		return address, l.Close
	}
	p, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	return address, p.Close
}
