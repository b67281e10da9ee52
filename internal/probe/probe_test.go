package probe

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
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
	p := &Prober{Timeout: 5 * time.Second, sigs: []bulkhead.Signature{bulkhead.MustSignature(bulkhead.RazorE4, []byte("12345678901234567890"))}}
	for _, lie := range []string{"", "HTTP/1.1 400 Bad Request\r\n\r\n", "220 mx ESMTP\r\n", "ham", "action", "\x00\x00\x00\x0dO\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x00",
		"\xff\xff\xff\xffO", "\x00\x00\x00\x00", "A\nA\nX-DCC: mx; Body=1\n\n", "sn=C&srl=1\r\np=0\r\n", "1\t(200, 'OK')\t0\t0\n", strings.Repeat("x", 3*maxReply)} {
		address := serve(t, lie)
		for _, name := range []string{"razor2", "razor_helper", "pyzor_helper", "dccifd", "milter", "policy"} {
			row := p.door(t.Context(), client.Door{Name: name, Address: address})
			if row.OK || row.Found == "" || row.Mend == "" {
				t.Errorf("%s that says %.30q: %+v", name, lie, row)
			}
		}
	}
	if row := p.door(t.Context(), client.Door{Name: "telex", Address: "127.0.0.1:1"}); row.OK || row.Mend == "" {
		t.Errorf("an unknown door: %+v", row)
	}
}

// TestMend checks that each kind of failure has advice of its own.
func TestMend(t *testing.T) {
	seen := make(map[string]error)
	for _, err := range []error{
		&fault{"x", "do this"}, fmt.Errorf("dial: %w", syscall.ECONNREFUSED), fs.ErrPermission, fs.ErrNotExist, context.DeadlineExceeded, bulkhead.ErrForbidden, io.EOF,
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

func TestNear(t *testing.T) {
	for listen, want := range map[string]string{
		"0.0.0.0:25": "127.0.0.1:25", "[::]:25": "[::1]:25", "192.0.2.1:25": "192.0.2.1:25", "/run/x": "/run/x", "mx.example.com:25": "mx.example.com:25",
	} {
		if got := near(listen); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}

// TestStore checks that what a node says of itself becomes a row.
func TestStore(t *testing.T) {
	for _, tt := range []struct {
		state client.NodeState
		ok    bool
		found string
	}{
		{client.NodeState{}, true, "taken"}, {client.NodeState{ReadOnly: "disk full"}, false, "disk full"}, {client.NodeState{Doubts: make([]client.Doubt, 2)}, false, "2 parts"},
	} {
		if row := store(&tt.state); row.OK != tt.ok || !strings.Contains(row.Found, tt.found) || row.OK != (row.Mend == "") {
			t.Errorf("%+v", row)
		}
	}
}

// TestDiskAndClock checks what a node says of its room and its time.
func TestDiskAndClock(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		free, needed uint64
		ok           bool
	}{{1000 * mb, 100 * mb, true}, {264 * mb, 100 * mb, true}, {263 * mb, 100 * mb, false}, {0, 0, false}} {
		row := disk(&client.NodeState{Disk: &client.Disk{Free: tt.free, Needed: tt.needed}})
		if row.OK != tt.ok || row.OK != (row.Mend == "") || !strings.Contains(row.Found, "free") {
			t.Errorf("%d free, %d needed: %+v", tt.free, tt.needed, row)
		}
	}
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	books := func(start time.Time) []client.Book {
		return []client.Book{{Generations: []client.Generation{{Start: start}, {Start: now.Add(-48 * time.Hour)}}}}
	}
	for _, tt := range []struct {
		state client.NodeState
		ok    bool
		found string
	}{
		{client.NodeState{Now: now.Add(59 * time.Second), Books: books(now)}, true, "as this"},
		{client.NodeState{Now: now.Add(61 * time.Second)}, false, "1m1s ahead of"},
		{client.NodeState{Now: now.Add(-time.Hour)}, false, "1h0m0s behind"},
		{client.NodeState{Now: now, Books: books(now.Add(10 * time.Minute))}, true, "as this"},
		{client.NodeState{Now: now, Books: books(now.Add(24 * time.Hour))}, false, "counted until 2026-11-24 12:00:00"},
	} {
		if row := clock(&tt.state, now); row.OK != tt.ok || row.OK != (row.Mend == "") || !strings.Contains(row.Found, tt.found) {
			t.Errorf("%v: %+v", tt.state.Now, row)
		}
	}
	if disk(&client.NodeState{}) != nil || clock(&client.NodeState{}, now) != nil {
		t.Error("an older node, which does not say, has rows")
	}
}

// FuzzMilter checks that the probe ends whatever a milter answers, and succeeds only if a
// header says so.
func FuzzMilter(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x0dO\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01c"))
	f.Add([]byte("\x00\x00\x00\x01O" + strings.Repeat("\x00\x00\x00\x01c", 14) + "\x00\x00\x00\x10iX-Bulkhead\x00spam\x00"))
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

// TestRelayRow: there is a red row once something passed a request on without saying so.
func TestRelayRow(t *testing.T) {
	if row := relay(&client.NodeState{}); row != nil {
		t.Errorf("without such a request: %+v", row)
	}
	host := "mail.example.org\n\x1b[2J"
	row := relay(&client.NodeState{Relayed: &host})
	if row == nil || row.OK || row.Mend == "" || !strings.Contains(row.Found, "mail.example.org") || strings.ContainsAny(row.Found, "\n\x1b") {
		t.Errorf("after one: %+v", row)
	}
}

// TestMissingRow: each part that was gone has a red row.
func TestMissingRow(t *testing.T) {
	if rows := missing(&client.NodeState{}); len(rows) > 0 {
		t.Errorf("of a whole folder: %+v", rows)
	}
	rows := missing(&client.NodeState{Missing: []string{"ratelimits", "mesh/peers.json"}})
	if len(rows) != 2 || rows[0].OK || rows[1].OK || !strings.Contains(rows[0].Found, "ratelimits") || !strings.Contains(rows[1].Found, "mesh/peers.json") || rows[0].Mend == "" {
		t.Errorf("rows %+v", rows)
	}
}

// TestSumRow: a sum that nobody hears, that something is missing in or that has no members
// is red.
func TestSumRow(t *testing.T) {
	for _, tt := range []struct {
		name string
		of   client.Aggregate
		ok   bool
		want string
	}{
		{"published", client.Aggregate{Members: 2, Organisations: 3}, true, "3 organisations"},
		{"unheard", client.Aggregate{Members: 2, Organisations: 3, Fault: "not connected to hub.example.com:8421: refused"}, false, "not connected to hub"},
		{"not made", client.Aggregate{Fault: "no room"}, false, "no room"},
		{"without members", client.Aggregate{Organisations: 1}, false, "nobody is in it"},
	} {
		row := sum(&tt.of)
		if row.OK != tt.ok || !strings.Contains(row.Found, tt.want) || (row.Mend == "") != tt.ok {
			t.Errorf("%s: %+v", tt.name, row)
		}
	}
}
