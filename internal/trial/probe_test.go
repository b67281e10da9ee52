package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// serve answers each connection with some bytes.
func serve(t testing.TB, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, answer)
			c.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	return l.Addr().String()
}

// TestLies checks that a door with a wrong answer is not taken for a working one.
func TestLies(t *testing.T) {
	p := &Prober{Timeout: 5 * time.Second,
		sigs: []bulkhead.Signature{bulkhead.MustSignature(bulkhead.RazorE4, []byte("12345678901234567890"))}}
	for _, lie := range []string{"", "HTTP/1.1 400 Bad Request\r\n\r\n", "220 mx ESMTP\r\n", "ham", "action",
		"\x00\x00\x00\x0dO\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x00",
		"\xff\xff\xff\xffO", "\x00\x00\x00\x00", "A\nA\nX-DCC: mx; Body=1\n\n", "sn=C&srl=1\r\np=0\r\n",
		"1\t(200, 'OK')\t0\t0\n", strings.Repeat("x", 3*maxReply)} {
		address := serve(t, lie)
		for _, name := range []string{"razor2", "razor_helper", "pyzor_helper", "dccifd", "milter", "policy"} {
			row := p.door(t.Context(), admin.Door{Name: name, Address: address})
			if row.OK || row.Found == "" || row.Mend == "" {
				t.Errorf("%s that says %.30q: %+v", name, lie, row)
			}
		}
	}
	if row := p.door(t.Context(), admin.Door{Name: "telex", Address: "127.0.0.1:1"}); row.OK || row.Mend == "" {
		t.Errorf("an unknown door: %+v", row)
	}
}

// TestMend checks that each kind of failure has its own advice.
func TestMend(t *testing.T) {
	seen := make(map[string]error)
	for _, err := range []error{
		&fault{"x", "do this"}, fmt.Errorf("dial: %w", syscall.ECONNREFUSED), fs.ErrPermission, fs.ErrNotExist,
		context.DeadlineExceeded, bulkhead.ErrForbidden, io.EOF,
	} {
		m := mend("pyzor_helper", err)
		if m == "" || seen[m] != nil {
			t.Errorf("%v: %q, as for %v", err, m, seen[m])
		}
		seen[m] = err
	}
	if got := mend("pyzor_helper", io.EOF); !strings.Contains(got, "docs/protocols/pyzor.md") {
		t.Errorf("the page of a helper: %q", got)
	}
}

// TestStore checks that the state that a node reports becomes a row.
func TestStore(t *testing.T) {
	for _, tt := range []struct {
		state admin.NodeState
		ok    bool
		found string
	}{
		{admin.NodeState{}, true, "taken"}, {admin.NodeState{ReadOnly: "disk full"}, false, "disk full"},
		{admin.NodeState{Doubts: make([]admin.Doubt, 2)}, false, "2 parts"},
	} {
		if row := store(&tt.state); row.OK != tt.ok || !strings.Contains(row.Found, tt.found) || row.OK != (row.Mend == "") {
			t.Errorf("%+v", row)
		}
	}
}

// TestStandby checks the row about the other node of a pair, and that a second node's refusal of votes is no
// fault.
func TestStandby(t *testing.T) {
	for _, tt := range []struct {
		standby *admin.Standby
		ok      bool
		found   string
	}{
		{&admin.Standby{Role: "first", Address: "a:1", Connected: true, Term: 3}, true, "term 3"},
		{&admin.Standby{Role: "first", Address: "a:1", Connected: true, Age: 90, Lag: 7}, false, "lacks 7"},
		{&admin.Standby{Role: "first", Address: "a:1", Copying: true}, false, "copied"},
		{&admin.Standby{Role: "first", Address: "a:1", Problem: "timeout"}, false, "away: timeout"},
		{&admin.Standby{Role: "second", Address: "a:1", Connected: true}, true, "second node"},
		{&admin.Standby{Role: "second", Address: "a:1", Problem: "refused"}, false, "not followed: refused"},
	} {
		row := standby(tt.standby)
		if row == nil || row.OK != tt.ok || !strings.Contains(row.Found, tt.found) || row.OK != (row.Mend == "") {
			t.Errorf("%+v: %+v", tt.standby, row)
		}
	}
	for _, alone := range []*admin.Standby{nil, {Role: "first"}} {
		if row := standby(alone); row != nil {
			t.Errorf("%+v: %+v", alone, row)
		}
	}
	second := admin.NodeState{ReadOnly: "follows", Standby: &admin.Standby{Role: "second"}}
	if row := store(&second); !row.OK {
		t.Errorf("a second node: %+v", row)
	}
}

// TestDiskAndClock checks the rows about a node's disk space and clock.
func TestDiskAndClock(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		free, needed uint64
		ok           bool
	}{{1000 * mb, 100 * mb, true}, {264 * mb, 100 * mb, true}, {263 * mb, 100 * mb, false}, {0, 0, false}} {
		row := disk(&admin.NodeState{Disk: &admin.Disk{Free: tt.free, Needed: tt.needed}})
		if row.OK != tt.ok || row.OK != (row.Mend == "") || !strings.Contains(row.Found, "free") ||
			row.OK == strings.Contains(row.Found, " and a journal up to ") {
			t.Errorf("%d free, %d needed: %+v", tt.free, tt.needed, row)
		}
	}
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	books := func(start time.Time) []admin.Book {
		return []admin.Book{{Generations: []admin.Generation{{Start: start}, {Start: now.Add(-48 * time.Hour)}}}}
	}
	for _, tt := range []struct {
		state admin.NodeState
		ok    bool
		found string
	}{
		{admin.NodeState{Now: now.Add(59 * time.Second), Books: books(now)}, true, "as this"},
		{admin.NodeState{Now: now.Add(61 * time.Second)}, false, "1m1s ahead of"},
		{admin.NodeState{Now: now.Add(-time.Hour)}, false, "1h0m0s behind"},
		{admin.NodeState{Now: now, Books: books(now.Add(10 * time.Minute))}, true, "as this"},
		{admin.NodeState{Now: now, Books: books(now.Add(24 * time.Hour))}, false, "counted until 2026-11-24 12:00:00"},
	} {
		if row := clock(&tt.state, now); row.OK != tt.ok || row.OK != (row.Mend == "") ||
			!strings.Contains(row.Found, tt.found) {
			t.Errorf("%v: %+v", tt.state.Now, row)
		}
	}
	if disk(&admin.NodeState{}) != nil || clock(&admin.NodeState{}, now) != nil {
		t.Error("an older node, which does not say, has rows")
	}
}

// FuzzMilter checks that the probe ends for any answers of a milter, and succeeds only if the
// milter adds the header.
func FuzzMilter(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x0dO\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01c"))
	f.Add([]byte("\x00\x00\x00\x01O" + strings.Repeat("\x00\x00\x00\x01c", 14) +
		"\x00\x00\x00\x10iX-Bulkhead\x00spam\x00"))
	f.Add([]byte("\x00\x00\x00\x01p\x00\x00\x00\x01O\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		found, err := (&Prober{}).milter(ctx, serve(t, string(answer)))
		if err == nil && found == recognised && !strings.Contains(string(answer), "X-Bulkhead\x00spam") {
			t.Fatalf("%q is taken for %q", answer, found)
		}
	})
}

// TestRelayRow: there is a red row once a proxy has forwarded a request without identifying itself.
func TestRelayRow(t *testing.T) {
	if row := relay(&admin.NodeState{}); row != nil {
		t.Errorf("without such a request: %+v", row)
	}
	host := "mail.example.org\n\x1b[2J"
	row := relay(&admin.NodeState{Relayed: &host})
	if row == nil || row.OK || row.Mend == "" || !strings.Contains(row.Found, "mail.example.org") ||
		strings.ContainsAny(row.Found, "\n\x1b") {
		t.Errorf("after one: %+v", row)
	}
}

// TestMissingRow: each missing part has a red row.
func TestMissingRow(t *testing.T) {
	if rows := missing(&admin.NodeState{}); len(rows) > 0 {
		t.Errorf("of a whole folder: %+v", rows)
	}
	rows := missing(&admin.NodeState{Missing: []string{"ratelimits", "mesh/peers.json"}})
	if len(rows) != 2 || rows[0].OK || rows[1].OK || !strings.Contains(rows[0].Found, "ratelimits") ||
		!strings.Contains(rows[1].Found, "mesh/peers.json") || rows[0].Mend == "" {
		t.Errorf("rows %+v", rows)
	}
}

// TestSumRow: an aggregate that is not received, that is incomplete or that has no members is red.
func TestSumRow(t *testing.T) {
	for _, tt := range []struct {
		name string
		of   admin.Aggregate
		ok   bool
		want string
	}{
		{"published", admin.Aggregate{Members: 2, Organisations: 3}, true, "3 organisations"},
		{"unheard", admin.Aggregate{Members: 2, Organisations: 3, Fault: "not connected to hub.example.com:8421: refused"},
			false, "not connected to hub"},
		{"not made", admin.Aggregate{Fault: "no room"}, false, "no room"},
		{"without members", admin.Aggregate{Organisations: 1}, false, "no other node is in it"},
	} {
		row := sum(&tt.of)
		if row.OK != tt.ok || !strings.Contains(row.Found, tt.want) || (row.Mend == "") != tt.ok {
			t.Errorf("%s: %+v", tt.name, row)
		}
	}
}

// TestBrokerRow checks that a node without a connection to a broker has a red row with the reason, and one whose broker
// has trouble as well.
func TestBrokerRow(t *testing.T) {
	for _, tt := range []struct {
		of   admin.Broker
		want string
		ok   bool
	}{
		{admin.Broker{Connected: true}, "connected", true},
		{admin.Broker{}, "not connected", false},
		{admin.Broker{Error: "x509: certificate has expired"}, "not connected: x509: certificate has expired", false},
		{admin.Broker{Connected: true, Trouble: "storage"}, "connected, with the trouble storage", false},
		{admin.Broker{Connected: true, Trouble: "permission", Error: "denied"},
			"connected, with the trouble permission: denied", false},
	} {
		tt.of.Server = "nats://a"
		row := broker(&tt.of)
		if row.Name != "broker nats://a" || row.OK != tt.ok || row.Found != tt.want || (row.Mend == "") != tt.ok {
			t.Errorf("%+v: %+v", tt.of, row)
		}
	}
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"brokers": []admin.Broker{{Server: "nats://a"}, {Server: "nats://b"}}})
	}))
	defer node.Close()
	rows := (&Prober{Node: admin.New(node.URL, "")}).brokers(t.Context())
	if len(rows) != 2 || rows[1].Name != "broker nats://b" {
		t.Errorf("of two brokers: %+v", rows)
	}
}

// TestEveryDoorAndCause: each door has a red row with its own advice if it is closed, if it does
// not answer, and if its socket is missing.
func TestEveryDoorAndCause(t *testing.T) {
	p := &Prober{Timeout: time.Second}
	text := bytes.Repeat([]byte("7"), 64)
	for _, scheme := range []bulkhead.Scheme{bulkhead.RazorE4, bulkhead.PyzorDigest, bulkhead.DCCBody,
		bulkhead.RspamdText} {
		for n := 1; n <= len(text); n++ {
			if s, err := bulkhead.NewSignature(scheme, text[:n]); err == nil {
				p.sigs = append(p.sigs, s)
				break
			}
		}
	}
	if len(p.sigs) != 4 {
		t.Fatalf("%d signatures", len(p.sigs))
	}
	datagrams := map[string]bool{"pyzor": true, "dcc": true, "fuzzy": true, "dnsbl": true}
	for name := range p.asks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()                   // each waits for a silent server
			address := nodetest.Address(t) // which stays free when it is closed
			var keep io.Closer
			if datagrams[name] {
				c, err := net.ListenPacket("udp", address)
				if err != nil {
					t.Fatal(err)
				}
				keep = c
			} else {
				// Accepted by the system, and never answered.
				l, err := net.Listen("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				keep = l
			}
			ask := func(address string) Row {
				own := &Prober{Timeout: p.Timeout, sigs: p.sigs, Node: admin.New("http://"+address, "")}
				return own.door(t.Context(), admin.Door{Name: name, Address: address})
			}
			if row := ask(address); row.OK || row.Name != name || !strings.Contains(row.Mend, "firewall") {
				t.Errorf("silent: %+v", row)
			}
			keep.Close()
			if row := ask(address); row.OK || !strings.Contains(row.Mend, "no program listens there") {
				t.Errorf("closed: %+v", row)
			}
			if name == "http" || name == "razor2" || datagrams[name] {
				return // no sockets
			}
			if row := ask(filepath.Join(t.TempDir(), "socket")); row.OK ||
				!strings.Contains(row.Mend, "the socket's file is gone") {
				t.Errorf("no socket: %+v", row)
			}
		})
	}
}

// TestListAndPeerRows: a state of the node's lists and peers that needs action is red, and each
// cause has its own advice.
func TestListAndPeerRows(t *testing.T) {
	now := time.Now()
	lists := []admin.List{
		{Name: "good", Entries: 7, Updated: now},
		{Name: "old", Entries: 7, Updated: now.Add(-31 * 24 * time.Hour)},
		{Name: "unread", Unknown: true, Fault: "no such file", Updated: now},
		{Name: "damaged", Entries: 7, Fault: "a checksum is wrong", Updated: now},
		{Name: "empty", Updated: now},
		{Name: "allowing", Allowed: 1, Updated: now},
	}
	peers := []admin.Peer{
		{Name: "heard", Weight: 1, Heard: now},
		{Name: "hub", Weight: 0},
		{Name: "unheard", Weight: 1},
		{Name: "silent", Weight: 1, Heard: now, Silent: 301},
		{Name: "expeller", Weight: 1, Heard: now, Silent: 301, Expels: true},
		{Name: "elsewhere", Weight: 1, Heard: now, Network: "0123456789abcdef"},
		{Name: "flooding", Weight: 1, Heard: now, Quarantine: "2000000 adds in a minute"},
		{Name: "ahead", Weight: 1, Heard: now, Lag: -90},
		{Name: "behind", Weight: 1, Heard: now, Lag: 90},
		{Name: "refused", Weight: 1, Heard: now, Error: "a page was not as promised"},
		{Key: "UNAMED", Weight: 1, Heard: now, Expels: true},
	}
	twin := false
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/v1/lists":
			json.NewEncoder(w).Encode(lists)
		case "/v1/peers":
			json.NewEncoder(w).Encode(peers)
		case "/v1/network":
			json.NewEncoder(w).Encode(admin.Network{Twin: twin})
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer node.Close()
	p := &Prober{Node: admin.New(node.URL, "")}
	for _, tt := range []struct {
		kind string
		rows []Row
		want []string // texts of the rows; a "-" in front means red
	}{
		{"list", p.lists(t.Context()), []string{"7 entries", "may have stopped", "-nothing is found in it: no such file",
			"-a checksum is wrong", "-it is empty", "0 entries"}},
		{"peer", p.peers(t.Context()), []string{"heard", "never heard, and not counted", "-never heard", "-silent for 301 s",
			"-expelled by expeller",
			"-another network", "-quarantine: 2000000", "-apart", "-apart", "a page was not", "-expelled by UNAMED"}},
	} {
		if len(tt.rows) != len(tt.want) {
			t.Fatalf("%ss: %+v", tt.kind, tt.rows)
		}
		for i, row := range tt.rows {
			want, red := strings.CutPrefix(tt.want[i], "-")
			if row.OK == red || (row.Mend != "") != red || !strings.Contains(row.Found, want) ||
				!strings.HasPrefix(row.Name, tt.kind+" ") || strings.HasSuffix(row.Name, " ") {
				t.Errorf("%+v, want %q", row, tt.want[i])
			}
		}
	}
	twin = true
	if rows := p.peers(t.Context()); rows[0].Name != "key" || rows[0].OK || rows[0].Mend == "" {
		t.Errorf("another server with the node's key: %+v", rows[0])
	}
	denied := &Prober{Node: admin.New(node.URL+"/nowhere", "")}
	if rows := append(denied.lists(t.Context()), denied.peers(t.Context())...); len(rows) > 0 {
		t.Errorf("without the right to see them: %+v", rows)
	}
}
