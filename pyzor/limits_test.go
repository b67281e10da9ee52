package pyzor

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestBounds: versions, threads, digests and clocks at their limits, and beyond.
func TestBounds(t *testing.T) {
	s := &Server{Clearinghouse: &prototest.House{}, Exempt: door.Loopback()}
	conn := dial(t, start(t, s, "127.0.0.1:0"))
	signed := func(user, key string, age time.Duration) string {
		r := Request{Op: []byte("ping"), Thread: []byte("30051"), User: []byte(user),
			Time: strconv.AppendInt(nil, time.Now().Add(-age).Unix(), 10)}
		return string(r.Append(nil, []byte(key)))
	}
	const ping = "Op: ping\nThread: 30051\nPV: "
	long := strings.Repeat("1", 32)
	for _, tt := range []struct{ name, request, want string }{
		{"whole version", ping + "2\n\n", "200"}, {"version with blanks", ping + " 2.1 \t\r\n\n", "200"},
		{"just below 3", ping + "2.999\n\n", "200"}, {"just below 2", ping + "1.999\n\n", "505"},
		{"3", ping + "3\n\n", "505"},
		{"endless", ping + "inf\n\n", "505"}, {"no number", ping + "nan\n\n", "505"}, {"empty", ping + "\n\n", "400"},
		{"longest thread", "Op: ping\nThread: " + long + "\nPV: 2.1\n\n", "200"},
		{"longer thread", "Op: ping\nThread: " + long + "1\nPV: 2.1\n\n", "400"},
		{"empty thread", "Op: ping\nThread:\nPV: 2.1\n\n", "200"},
		{"names in capitals", "OP: ping\nTHREAD: 30051\nPV: 2.1\nUSER: anonymous\nTIME: 0\nSIG: 0\n\n", "200"},
		{"user of one letter", ping + "2.1\nUser: x\n\n", "401"},
		{"names beside letters", "Op: ping\nThread: 30051\nPV: 2.1\nU\x93er: nobody\n\n", "200"},
		{"signed", signed("alice", aliceKey, 0), "200"},
		// the text is signed
		{"signed in capitals", strings.NewReplacer("User:", "USER:", "Time:", "TIME:", "Sig:",
			"SIG:").Replace(signed("alice", aliceKey, 0)), "401"},
		{"signed by a key in capitals", signed("alice", strings.ToUpper(aliceKey), 0), "200"},
		{"clock behind", signed("alice", aliceKey, 290*time.Second), "200"},
		{"clock ahead", signed("alice", aliceKey, -290*time.Second), "200"},
		{"clock far behind", signed("alice", aliceKey, 310*time.Second), "401"},
		{"clock far ahead", signed("alice", aliceKey, -310*time.Second), "401"},
		{"signature missing", strings.Split(signed("alice", aliceKey, 0), "Sig:")[0] + "\n", "401"},
		{"signature of another", signed("gone", aliceKey, 0), "401"},
		{"text added", strings.Replace(signed("alice", aliceKey, 0), "PV: 2.1\n", "PV: 2.1\nX: y\n", 1), "401"},
		{"text added at the end", signed("alice", aliceKey, 0) + "X: y\n", "401"},
		{"blanks added at the end", signed("alice", aliceKey, 0) + " \n\n", "200"},
		{"digest too short", "Op: check\nOp-Digest: " + d1[1:] + "\nThread: 30051\nPV: 2.1\n\n", "200"},
		{"digest too long", "Op: check\nOp-Digest: " + d1 + "00\nThread: 30051\nPV: 2.1\n\n", "200"},
		{"digest of no digits", "Op: check\nOp-Digest: g" + d1[1:] + "\nThread: 30051\nPV: 2.1\n\n", "200"},
		{"report of nothing", "Op: report\nThread: 30051\nPV: 2.1\n\n", "200"},
		{"report of no digest", "Op: report\nOp-Digest: x\nThread: 30051\nPV: 2.1\n\n", "200"},
		{"strange operation", "Op: delete\nThread: 30051\nPV: 2.1\n\n", "403"},
	} {
		if got := exchange(t, conn, tt.request); !strings.HasPrefix(got, "Code: "+tt.want+"\n") ||
			!strings.HasSuffix(got, "\n\n") {
			t.Errorf("%s: answer %q, want code %s", tt.name, got, tt.want)
		}
	}
	if n := s.Stats.Reports.Load(); n != 0 {
		t.Errorf("%d digests counted by reports of none", n)
	}
}

// TestSignatureAnywhere: the signature covers all other lines, wherever its line is.
func TestSignatureAnywhere(t *testing.T) {
	s := &Server{Clearinghouse: &prototest.House{}, Exempt: door.Loopback()}
	conn := dial(t, start(t, s, "127.0.0.1:0"))
	now := strconv.FormatInt(time.Now().Unix(), 10)
	lines := []string{"Op: ping", "Thread: 30051", "PV: 2.1", "User: alice", "Time: " + now}
	sum := signatureOf([]byte(strings.Join(lines, "\n")), []byte(now), accountKey([]byte("alice"), []byte(aliceKey)))
	for at := range len(lines) + 1 {
		all := slices.Insert(slices.Clone(lines), at, "Sig: "+string(sum[:]))
		if got := exchange(t, conn, strings.Join(all, "\n")+"\n\n"); !strings.HasPrefix(got, "Code: 200\n") {
			t.Errorf("signature in line %d: %q", at+1, got)
		}
		all[at] = "Sig: " + string(sum[1:]) + "0"
		if got := exchange(t, conn, strings.Join(all, "\n")+"\n\n"); !strings.HasPrefix(got, "Code: 401\n") {
			t.Errorf("another signature in line %d: %q", at+1, got)
		}
	}
}

// TestStats: each request is counted by its outcome.
func TestStats(t *testing.T) {
	type stats struct{ pings, checks, infos, reports, whitelists, strange, refused, busy, faults int64 }
	const tail = "Op-Digest: " + d1 + "\nThread: 30051\nPV: 2.1\n\n"
	const two = "Op-Digest: " + d1 + "\nOp-Digest: " + d2 + "\nThread: 30051\nPV: 2.1\n\n"
	const thrice = "Op-Digest: " + d1 + "\nOp-Digest: " + d1 + "\nOp-Digest: " + d1 + "\nThread: 30051\nPV: 2.1\n\n"
	for _, tt := range []struct {
		name, request string
		err           error
		want          stats
	}{
		{"ping", "Op: ping\nThread: 30051\nPV: 2.1\n\n", nil, stats{pings: 1}},
		{"pong", "Op: pong\n" + tail, nil, stats{pings: 1}},
		{"check", "Op: check\n" + tail, nil, stats{checks: 1}},
		{"info", "Op: info\n" + tail, nil, stats{infos: 1}},
		{"report", "Op: report\n" + tail, nil, stats{reports: 1}},
		{"report of two", "Op: report\n" + two, nil, stats{reports: 2}},
		{"report of one, three times", "Op: report\n" + thrice, nil, stats{reports: 3}},
		{"whitelist of one, three times", "Op: whitelist\n" + thrice, nil, stats{whitelists: 3}},
		{"no request", "hello\n", nil, stats{strange: 1}},
		{"no version", "Op: ping\nThread: 30051\n\n", nil, stats{refused: 1}},
		{"not permitted", "Op: x\nThread: 30051\nPV: 2.1\n\n", nil, stats{refused: 1}},
		{"check of a node with a fault", "Op: check\n" + tail, prototest.ErrFault, stats{refused: 1, faults: 1}},
		{"report to a node with a fault", "Op: report\n" + tail, prototest.ErrFault, stats{refused: 1, faults: 1}},
		{"three times to a node with a fault", "Op: report\n" + thrice, prototest.ErrFault, stats{refused: 1, faults: 1}},
		{"report that is not authorised", "Op: report\n" + tail, bulkhead.ErrUnauthorised, stats{refused: 1}},
		{"report to a node that takes none", "Op: report\n" + tail, bulkhead.ErrReadOnly, stats{refused: 1}},
	} {
		s := &Server{Clearinghouse: &prototest.House{Err: tt.err}, Anonymous: Ops(), Exempt: door.Loopback()}
		exchange(t, dial(t, start(t, s, "127.0.0.1:0")), tt.request)
		tt.want.pings++ // exchange ends with one
		st := &s.Stats
		// A vote is answered outside the batch, perhaps after the ping.
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := stats{
			st.Pings.Load(), st.Checks.Load(), st.Infos.Load(), st.Reports.Load(), st.Whitelists.Load(),
			st.Strange.Load(), st.Refused.Load(), st.Busy.Load(), st.Faults.Load(),
		}
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestRepeatedDigests: a digest that occurs n times in one request is one report of n.
func TestRepeatedDigests(t *testing.T) {
	house := &prototest.House{}
	c := newClient(t, start(t, &Server{Clearinghouse: house}, "127.0.0.1:0"), Options{User: "alice", Key: aliceKey})
	one, two, three := digest(t, d1), digest(t, d2), digest(t, strings.Repeat("3", 40))
	if _, err := c.Do(t.Context(), OpWhitelist, two, one, three, two, three, three); err != nil {
		t.Fatal(err)
	}
	got := make(map[bulkhead.Signature]uint32)
	for _, r := range house.Reports() {
		if r.Vote != bulkhead.Ham || r.Reporter.Account != "alice" {
			t.Errorf("%v by %+v", r.Vote, r.Reporter)
		}
		seen := make(map[bulkhead.Signature]bool)
		for _, sig := range r.Signatures {
			got[sig] += max(r.Count, 1)
			if seen[sig] {
				t.Errorf("one report has %v twice", sig)
			}
			seen[sig] = true
		}
	}
	if len(got) != 3 || got[one] != 1 || got[two] != 2 || got[three] != 3 {
		t.Errorf("counted %v, want 1, 2 and 3", got)
	}
}

// waiting is a clearinghouse whose reports wait until it is released.
type waiting struct {
	*prototest.House
	begun, release chan struct{}
}

func (w *waiting) Report(ctx context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	w.begun <- struct{}{}
	<-w.release
	return w.House.Report(ctx, r)
}

// TestBusy: votes beyond the limit of concurrent votes are dropped, and requests that need no disk
// go on.
func TestBusy(t *testing.T) {
	house := &waiting{&prototest.House{}, make(chan struct{}), make(chan struct{})}
	s := &Server{Clearinghouse: house, Votes: 1, Memory: door.NewMemory(1 << 30)}
	address := start(t, s, "127.0.0.1:0")
	conn := dial(t, address)
	done := make(chan error, 1)
	c := newClient(t, address, Options{Timeout: 20 * time.Second})
	go func() {
		_, err := c.Do(context.WithoutCancel(t.Context()), OpReport, digest(t, d1))
		done <- err
	}()
	<-house.begun
	if _, held, _ := s.Memory.Usage(); held == 0 {
		t.Error("a vote that waits holds no memory")
	}
	if got := exchange(t, conn, "Op: report\nOp-Digest: "+d2+"\nThread: 30051\nPV: 2.1\n\n"); got != "" ||
		s.Stats.Busy.Load() != 1 {
		t.Errorf("answer %q, %d votes dropped, want none and one", got, s.Stats.Busy.Load())
	}
	if got := exchange(t, conn, "Op: check\nOp-Digest: "+d1+"\nThread: 30051\nPV: 2.1\n\n"); !strings.Contains(got,
		"Count: 0\n") {
		t.Errorf("check: %q", got)
	}
	close(house.release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := house.Reports(); len(got) != 1 || got[0].Signatures[0] != digest(t, d1) {
		t.Errorf("counted %v, want the first report", got)
	}
}

// verdicts answers every check with one verdict.
type verdicts struct {
	bulkhead.Clearinghouse
	v bulkhead.Verdict
}

func (v *verdicts) Check(context.Context, bulkhead.Query) (bulkhead.Verdict, error) { return v.v, nil }

// batches answers many checks at once, with the number of spam votes with which the digest begins.
type batches struct {
	bulkhead.Clearinghouse
	err error
}

func (b *batches) CheckBatch(_ context.Context, queries []bulkhead.Query, out []bulkhead.Verdict) error {
	for i, q := range queries {
		out[i] = bulkhead.Verdict{Findings: []bulkhead.Finding{{Signature: q.Signatures[0],
			Spam: uint32(q.Signatures[0].Sum()[0])}}}
	}
	return b.err
}

// TestVerdicts: the answer about a digest, for each verdict that a node may give.
func TestVerdicts(t *testing.T) {
	first, last := time.Unix(1000, 0), time.Unix(2000, 0)
	known := bulkhead.Finding{Spam: 7, Ham: 3, First: first, Last: last}
	revoked, undated := known, known
	revoked.Judged = bulkhead.Revoked
	undated.First, undated.Last = time.Time{}, time.Time{}
	spamOnly, hamOnly := known, known
	spamOnly.Ham, hamOnly.Spam = 0, 0
	full := known
	full.Spam, full.Ham = bulkhead.Many, bulkhead.Many
	const none = "Entered: 0\nUpdated: 0\nWL-Entered: 0\nWL-Updated: 0\nCount: 0\nWL-Count: 0\n\n"
	for _, tt := range []struct {
		name string
		v    bulkhead.Verdict
		want string
	}{
		{"known", bulkhead.Verdict{Findings: []bulkhead.Finding{known}},
			"Entered: 1000\nUpdated: 2000\nWL-Entered: 1000\nWL-Updated: 2000\nCount: 7\nWL-Count: 3\n\n"},
		{"spam only", bulkhead.Verdict{Findings: []bulkhead.Finding{spamOnly}},
			"Entered: 1000\nUpdated: 2000\nWL-Entered: 0\nWL-Updated: 0\nCount: 7\nWL-Count: 0\n\n"},
		{"ham only", bulkhead.Verdict{Findings: []bulkhead.Finding{hamOnly}},
			"Entered: 0\nUpdated: 0\nWL-Entered: 1000\nWL-Updated: 2000\nCount: 0\nWL-Count: 3\n\n"},
		{"revoked", bulkhead.Verdict{Findings: []bulkhead.Finding{revoked}},
			"Entered: 0\nUpdated: 0\nWL-Entered: 1000\nWL-Updated: 2000\nCount: 0\nWL-Count: 3\n\n"},
		{"undated", bulkhead.Verdict{Findings: []bulkhead.Finding{undated}},
			"Entered: 0\nUpdated: 0\nWL-Entered: 0\nWL-Updated: 0\nCount: 7\nWL-Count: 3\n\n"},
		{"as much as is told", bulkhead.Verdict{Findings: []bulkhead.Finding{full}},
			"Entered: 1000\nUpdated: 2000\nWL-Entered: 1000\nWL-Updated: 2000\nCount: 999999\nWL-Count: 9999\n\n"},
		{"whitelisted", bulkhead.Verdict{Whitelisted: "signature", Findings: []bulkhead.Finding{known}}, none},
		{"nothing", bulkhead.Verdict{}, none},
	} {
		conn := dial(t, start(t, &Server{Clearinghouse: &verdicts{v: tt.v}}, "127.0.0.1:0"))
		if got := exchange(t, conn, "Op: info\nOp-Digest: "+d1+
			"\nThread: 30051\nPV: 2.1\nUser: anonymous\nTime: 0\nSig: 0\n\n"); !strings.HasSuffix(got,
			"Thread: 30051\n"+tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	s := &Server{Clearinghouse: &batches{}}
	s.prepare()
	var packets []*door.Packet
	for i := range 9 {
		op := []string{"check", "ping", "nonsense"}[i%3]
		packets = append(packets, &door.Packet{Data: fmt.Appendf(nil, "Op: %s\nOp-Digest: %02x%s\nThread: 30051\nPV: 2.1\n\n",
			op, i, d1[2:])})
	}
	for _, err := range []error{nil, prototest.ErrFault} {
		s.Clearinghouse = &batches{err: err}
		for i, p := range packets {
			p.Reply = p.Reply[:0]
			packets[i] = p
		}
		s.handle(t.Context(), packets)
		for i, p := range packets {
			want := []string{fmt.Sprintf("Code: 200\nDiag: OK\nPV: 2.1\nThread: 30051\nCount: %d\nWL-Count: 0\n\n", i),
				"Code: 200\nDiag: OK\nPV: 2.1\nThread: 30051\n\n", "Code: 403"}[i%3]
			if err != nil && i%3 == 0 {
				want = "Code: 500"
			}
			if !strings.HasPrefix(string(p.Reply), want) {
				t.Errorf("packet %d of a batch with the error %v: %q, want %q", i, err, p.Reply, want)
			}
		}
	}
}

// TestAmplifiedBursts: a server without a configured limit sends one client 50 long answers at
// once. A client that has signed, or is exempt, gets all answers.
func TestAmplifiedBursts(t *testing.T) {
	for _, tt := range []struct {
		name, user string
		exempt     bool
		want       int
	}{{"anonymous", "", false, 50}, {"signed", "alice", false, 60}, {"exempt", "", true, 60}} {
		s := &Server{Clearinghouse: &prototest.House{}, Accounts: keys{"alice": aliceKey},
			Amplified: door.Rate{PerSecond: 1e-6, Burst: 50}}
		if tt.exempt {
			s.Exempt = door.Loopback()
		}
		conn := dial(t, start(t, s, "127.0.0.1:0"))
		answered := 0
		for range 60 {
			r := Request{Op: []byte("info"), Thread: []byte("30051"), User: []byte(tt.user),
				Time: strconv.AppendInt(nil, time.Now().Unix(), 10), Digests: [][]byte{[]byte(d1)}}
			request := string(r.Append(nil, []byte(aliceKey)))
			if tt.user == "" {
				request = "Op: info\nOp-Digest: " + d1 + "\nThread: 30051\nPV: 2.1\n\n"
			}
			if exchange(t, conn, request) != "" {
				answered++
			}
		}
		if answered != tt.want {
			t.Errorf("%s: %d of 60 long answers, want %d", tt.name, answered, tt.want)
		}
	}
}

// TestParseReply: an answer has a number for its code, a thread and a protocol of 2.
func TestParseReply(t *testing.T) {
	for _, tt := range []struct {
		text string
		want error // nil: an answer, with the values below
		err  error // of the answer
	}{
		{"Code: 200\nDiag: OK\nPV: 2.1\nThread: 7\nCount: 5\n\n", nil, nil},
		{"Code: 200\r\nDiag: OK\r\nPV: 2.0\r\nThread: 7\r\nCount: 5\r\nCount: 6\r\n", nil, nil},
		{"no header\nCode: 401\nDiag: OK\nPV: 2.1\nThread: 7\nCount: 5\n\n", nil, bulkhead.ErrUnauthorised},
		{"Code: 403\nDiag: OK\nPV: 2.1\nThread: 7\nCount: 5\n\n", nil, bulkhead.ErrForbidden},
		{"Code: 400\nDiag: OK\nPV: 2.1\nThread: 7\nCount: 5\n\n", nil, bulkhead.ErrMalformed},
		{"Code: 505\nDiag: OK\nPV: 2.1\nThread: 7\nCount: 5\n\n", nil, bulkhead.ErrMalformed},
		{"Diag: OK\nPV: 2.1\nThread: 7\n\n", bulkhead.ErrMalformed, nil},
		{"Code: x\nPV: 2.1\nThread: 7\n\n", bulkhead.ErrMalformed, nil},
		{"Code: 200\nPV: 3.1\nThread: 7\n\n", bulkhead.ErrMalformed, nil},
		{"Code: 200\nThread: 7\n\n", bulkhead.ErrMalformed, nil},
		{"Code: 200\nPV: 2.1\n\n", bulkhead.ErrMalformed, nil},
		{"", bulkhead.ErrMalformed, nil},
	} {
		r, err := ParseReply([]byte(tt.text))
		if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%q: %v, want %v", tt.text, err, tt.want)
		}
		if err != nil {
			continue
		}
		n, err := r.Count("Count")
		if r.Diag != "OK" || r.Thread != "7" || n != 5 || err != nil {
			t.Errorf("%q: %+v, count %d, %v", tt.text, r, n, err)
		}
		if got := r.Err(); !errors.Is(got, tt.err) || (got == nil) != (r.Code == 200) || got != nil &&
			!strings.HasSuffix(got.Error(), r.Diag) {
			t.Errorf("%q: error %v, want %v", tt.text, got, tt.err)
		}
		if _, err := r.Count("WL-Count"); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%q: a count that is not there: %v", tt.text, err)
		}
	}
	if err := (&Reply{Code: 503, Diag: "later"}).Err(); err == nil || !strings.Contains(err.Error(), "503 later") {
		t.Errorf("code 503: %v", err)
	}
}

// TestClientReads: the client accepts the answer with its own thread, and no other.
func TestClientReads(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan []string, 1)
	threads := make(chan int, 2)
	done := make(chan struct{})
	t.Cleanup(func() { pc.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 9000)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			var r Request
			r.Parse(buf[:n])
			thread, _ := strconv.Atoi(string(r.Thread))
			threads <- thread
			for _, a := range <-answers {
				pc.WriteTo([]byte(strings.ReplaceAll(a, "THREAD", string(r.Thread))), from)
			}
		}
	}()
	c := newClient(t, pc.LocalAddr().String(), Options{Timeout: 20 * time.Second})
	answers <- []string{"Code: 200\nPV: 2.1\nThread: 1\nCount: 1\n\n", "Code: 200\nPV: 2.1\nThread: THREAD\nCount: 2\n\n"}
	if r, err := c.Do(t.Context(), OpCheck); err != nil || r.Values["Count"] != "2" {
		t.Errorf("%+v, %v, want the answer to this request", r, err)
	}
	answers <- []string{"what?"}
	if _, err := c.Do(t.Context(), OpCheck); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("an answer that is none: %v", err)
	}
	for range 2 {
		if thread := <-threads; thread < 1024 || thread > 65535 {
			t.Errorf("thread %d, want 1024 to 65535, which the original server takes", thread)
		}
	}
	if _, err := Dial(t.Context(), "127.0.0.1:nothing", nil); err == nil ||
		!strings.HasPrefix(err.Error(), "pyzor: ") {
		t.Errorf("an address that is none: %v", err)
	}
}

// TestServeHelper: the helper answers within its limits, and hangs up on a mail that
// cannot be looked up.
func TestServeHelper(t *testing.T) {
	mail := []byte("Subject: x\n\nthis is the text of the mail\nwith a second line of it\n")
	for _, tt := range []struct {
		name string
		h    *Helper
		want int // of three mails
	}{
		{"without limits", &Helper{Clearinghouse: &prototest.House{}}, 3},
		{"over the rate", &Helper{Clearinghouse: &prototest.House{}, MailServer: door.MailServer{
			Rate: door.Rate{PerSecond: 1e-6, Burst: 2}}}, 2},
		{"exempt", &Helper{Clearinghouse: &prototest.House{}, MailServer: door.MailServer{
			Rate: door.Rate{PerSecond: 1e-6, Burst: 2}, Exempt: door.Loopback()}}, 3},
		{"too large", &Helper{Clearinghouse: &prototest.House{}, MailServer: door.MailServer{
			MaxMail: int64(len(mail)) - 1}}, 0},
		{"as large as may be", &Helper{Clearinghouse: &prototest.House{}, MailServer: door.MailServer{
			MaxMail: int64(len(mail))}}, 3},
		{"fault", &Helper{Clearinghouse: &prototest.House{Err: prototest.ErrFault}}, 0},
		{"whitelisted", &Helper{Clearinghouse: &verdicts{v: bulkhead.Verdict{Whitelisted: "sender",
			Findings: []bulkhead.Finding{{Spam: 9}}}}}, 3},
	} {
		address := prototest.ServeStream(t, "127.0.0.1:0", tt.h)
		answered := 0
		for range 3 {
			got, _ := prototest.Ask(t, address, mail)
			if got == "" {
				continue
			}
			answered++
			if want := fmt.Sprintf("%s\t(200, 'OK')\t0\t0\n", address); got != want {
				t.Errorf("%s: %q, want %q", tt.name, got, want)
			}
		}
		if answered != tt.want {
			t.Errorf("%s: %d of 3 mails answered, want %d", tt.name, answered, tt.want)
		}
	}
}

// TestManyDigests: the first 256 digests of a request are read.
func TestManyDigests(t *testing.T) {
	for n, want := range map[int]int{1: 1, 255: 255, 256: 256, 257: 256, 700: 256} {
		var r Request
		if !r.Parse([]byte("op:report\nthread:1\n"+strings.Repeat("op-digest:\n", n))) || len(r.Digests) != want {
			t.Errorf("%d digests: %d read, want %d", n, len(r.Digests), want)
		}
	}
}

// TestRepeatsHaveBallots: digests that one request repeats are counted separately from the digests
// of other requests by the same reporter, and none is lost.
func TestRepeatsHaveBallots(t *testing.T) {
	ana := bulkhead.Reporter{Account: "ana"}
	one, two, three := digest(t, d1), digest(t, d2), digest(t, strings.Repeat("3", 40))
	var b batch
	b.ballot(ana, bulkhead.Spam, []bulkhead.Signature{one}, nil)
	b.ballot(ana, bulkhead.Spam, []bulkhead.Signature{two}, map[bulkhead.Signature]uint32{three: 2})
	b.ballot(ana, bulkhead.Spam, []bulkhead.Signature{three}, nil)
	house := &prototest.House{}
	s := &Server{Clearinghouse: house}
	for _, box := range b.ballots {
		if _, err := s.count(t.Context(), box); err != nil {
			t.Fatal(err)
		}
	}
	got := make(map[bulkhead.Signature]uint32)
	for _, r := range house.Reports() {
		for _, sig := range r.Signatures {
			got[sig] += max(r.Count, 1)
		}
	}
	if len(got) != 3 || got[one] != 1 || got[two] != 1 || got[three] != 3 {
		t.Errorf("counted %v, want 1, 1 and 3", got)
	}
}

// TestUnauthorised: a reporter whom the node does not know is answered as an
// unknown account.
func TestUnauthorised(t *testing.T) {
	c := newClient(t,
		start(t, &Server{Clearinghouse: &prototest.House{Err: bulkhead.ErrUnauthorised}}, "127.0.0.1:0"), Options{})
	for _, op := range []Op{OpCheck, OpReport} {
		if r, err := c.Do(t.Context(), op, digest(t, d1)); !errors.Is(err, bulkhead.ErrUnauthorised) || r.Code != 401 {
			t.Errorf("%s: %+v, %v, want code 401", op, r, err)
		}
	}
}

// TestDigests: 40 hexadecimal digits are a digest, and nothing else.
func TestDigests(t *testing.T) {
	for text, want := range map[string]bool{d1: true, strings.ToUpper(d1): true, d1[1:]: false, d1 + "0": false,
		"x" + d1[1:]: false, "": false} {
		sig, ok := ParseDigest([]byte(text))
		if ok != want || ok && hex.EncodeToString(sig.Sum()) != d1 {
			t.Errorf("%q: %v, %v, want %v", text, sig, ok, want)
		}
	}
}

// TestSkew: the clock of a signed request may differ by 300 seconds.
func TestSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Accounts: keys{"alice": aliceKey}}
		for seconds, want := range map[int64]error{0: nil, 300: nil, -300: nil, 301: errTimestamp, -301: errTimestamp} {
			sent := Request{Op: []byte("ping"), Thread: []byte("30051"), User: []byte("alice"),
				Time: strconv.AppendInt(nil, time.Now().Unix()+seconds, 10)}
			var r Request
			if !r.Parse(sent.Append(nil, []byte(aliceKey))) {
				t.Fatal("not a request")
			}
			if err := s.authenticate(t.Context(), &r); err != want {
				t.Errorf("a clock that is %d s ahead: %v, want %v", seconds, err, want)
			}
		}
	})
}

// TestFailures: unknown users and wrong signatures are failed log-ins, and other refusals are not.
func TestFailures(t *testing.T) {
	signed := func(user, key string, at time.Time) string {
		r := Request{Op: []byte("ping"), Thread: []byte("30051"), User: []byte(user),
			Time: strconv.AppendInt(nil, at.Unix(), 10)}
		return string(r.Append(nil, []byte(key)))
	}
	for name, tt := range map[string]struct {
		request string
		want    int64
	}{
		"good":              {signed("alice", aliceKey, time.Now()), 0},
		"an unknown user":   {signed("bob", aliceKey, time.Now()), 1},
		"a closed account":  {signed("gone", aliceKey, time.Now()), 1},
		"a wrong signature": {signed("alice", strings.Repeat("1", 40), time.Now()), 1},
		"an old signature":  {signed("alice", aliceKey, time.Now().Add(-time.Hour)), 0},
		"a broken disk":     {signed("odd", aliceKey, time.Now()), 0},
		"an unknown op":     {"Op: fly\nThread: 30051\nPV: 2.1\n\n", 0},
		"no version":        {"Op: ping\nThread: 30051\n\n", 0},
	} {
		var noted atomic.Int64
		f := door.NewFailures(slog.New(slog.DiscardHandler))
		f.OnLog = func(where string, _ netip.Addr, n int) {
			if noted.Add(int64(n)); where != "pyzor" {
				t.Errorf("%s: noted at %s", name, where)
			}
		}
		conn := dial(t, start(t, &Server{Clearinghouse: &prototest.House{}, Failures: f}, "127.0.0.1:0"))
		if got := exchange(t, conn, tt.request); noted.Load() != tt.want {
			t.Errorf("%s: %d failures noted, want %d; answer %q", name, noted.Load(), tt.want, got)
		}
	}
}
