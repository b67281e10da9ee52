package pyzor

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/pyzor"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

type keys map[string]string

func (k keys) Secret(_ context.Context, name string) ([]byte, bool, error) {
	switch key, ok := k[name]; key {
	case "closed":
		return nil, false, bulkhead.ErrForbidden
	case "broken":
		return nil, false, errors.New("disk on fire")
	default:
		return []byte(key), ok, nil
	}
}

const aliceKey = "0123456789abcdef0123456789abcdef01234567"

func start(t testing.TB, s *Server, address string) string {
	t.Helper()
	if s.Accounts == nil {
		s.Accounts = keys{"alice": aliceKey, "gone": "closed", "odd": "broken"}
	}
	return prototest.ServePackets(t, address, 2, s).String()
}

func digest(t testing.TB, text string) bulkhead.Signature {
	t.Helper()
	sig, ok := ParseDigest([]byte(text))
	if !ok {
		t.Fatalf("%q is no digest", text)
	}
	return sig
}

// exchange sends a datagram and returns the answer, or "" if none comes before the answer to a ping
// that follows.
// newClient returns a client that is closed when the test ends.
func newClient(t testing.TB, address string, o Options) *Client {
	t.Helper()
	c, err := Dial(context.Background(), address, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func exchange(t testing.TB, conn net.Conn, datagram string) string {
	t.Helper()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, datagram); err != nil {
		t.Fatal(err)
	}
	const marker = "Op: ping\nThread: 1023\nPV: 2.1\nUser: anonymous\nTime: 0\nSig: 0000000000\n\n"
	const pong = "Code: 200\nDiag: OK\nPV: 2.1\nThread: 1023\n\n"
	buf := make([]byte, 9000)
	if _, err := io.WriteString(conn, marker); err != nil {
		t.Fatal(err)
	}
	answer := ""
	for {
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("after %.100q: %v", datagram, err)
		}
		if string(buf[:n]) == pong {
			return answer
		}
		answer += string(buf[:n])
	}
}

func dial(t testing.TB, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

const (
	d1 = "dc2f1aac4a98fe905e0d362276084a814b77f391"
	d2 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

// TestRequests has the table of docs/specs/pyzor.md#order-of-checks and
// #captured-exchanges, recorded from the real clients and the original server.
func TestRequests(t *testing.T) {
	house := &prototest.House{Now: func() time.Time { return time.Unix(1795267704, 0) }}
	for who, vote := range map[string]bulkhead.Vote{"ana": bulkhead.Spam, "bob": bulkhead.Spam, "cyd": bulkhead.Ham} {
		r := bulkhead.Report{Signatures: []bulkhead.Signature{digest(t, d1)}, Vote: vote,
			Reporter: bulkhead.Reporter{Account: who}}
		if _, err := house.Report(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	s := &Server{Clearinghouse: house, Exempt: door.Loopback()}
	conn := dial(t, start(t, s, "127.0.0.1:0"))
	const tail = "Time: 1795267704\nSig: 0ee90b47a1299a949b1331807c72155d4ab89aa4\n\n"
	const ok = "Code: 200\nDiag: OK\nPV: 2.1\nThread: 30051\n"
	tests := []struct{ name, request, want string }{
		{"ping", "Op: ping\nThread: 30051\nPV: 2.1\nUser: anonymous\n" + tail, ok + "\n"},
		{"pong", "Op: pong\nOp-Digest: " + d1 + "\nThread: 30051\nPV: 2.1\nUser: anonymous\n" + tail,
			ok + "Count: 9223372036854775807\nWL-Count: 0\n\n"},
		{"check", "Op: check\nOp-Digest: " + d1 + "\nThread: 30051\nPV: 2.1\nUser: anonymous\n" + tail,
			ok + "Count: 2\nWL-Count: 1\n\n"},
		{"check unknown", "Op: check\nOp-Digest: " + d2 + "\nThread: 30051\nPV: 2.1\nUser: anonymous\n" + tail,
			ok + "Count: 0\nWL-Count: 0\n\n"},
		{"info", "Op: info\nOp-Digest: " + d1 + "\nThread: 30051\nPV: 2.1\nUser: anonymous\n" + tail,
			ok + "Entered: 1795267704\nUpdated: 1795267704\nWL-Entered: 1795267704\n" +
				"WL-Updated: 1795267704\nCount: 2\nWL-Count: 1\n\n"},
		{"info unknown", "Op: info\nOp-Digest: " + d2 + "\nThread: 30051\nPV: 2.1\nUser: anonymous\n" + tail,
			ok + "Entered: 0\nUpdated: 0\nWL-Entered: 0\nWL-Updated: 0\nCount: 0\nWL-Count: 0\n\n"},
		{"Perl client", "Op: check\nOp-Digest: " + d1 + "\nThread: 30051\nPV: 2.1\n" + tail,
			ok + "Count: 2\nWL-Count: 1\n\n"},
		{"anonymous whitelist", "Op: whitelist\nOp-Digest: " + d1 +
			"\nOp-Spec: 20,3,60,3\nThread: 30051\nPV: 2.1\nUser: anonymous\n" + tail,
			"Code: 403\nDiag: Forbidden: User is not authorized to request the operation.\nPV: 2.1\nThread: 30051\n\n"},
		{"minor version", "Op: ping\nThread: 30051\nPV: 2.9\n\n", ok + "\n"},
		{"major version", "Op: ping\nThread: 30051\nPV: 3.0\n\n",
			"Code: 505\nDiag: Version Not Supported: \nPV: 2.1\nThread: 30051\n\n"},
		{"no version", "Op: ping\nThread: 30051\n\n",
			"Code: 400\nDiag: Bad request: Protocol Version not specified in request\nPV: 2.1\nThread: 30051\n\n"},
		{"odd version", "Op: ping\nThread: 30051\nPV: x\n\n",
			"Code: 400\nDiag: Bad request: Invalid Protocol Version\nPV: 2.1\nThread: 30051\n\n"},
		{"lower-case names", "op: ping\nthread: 30051\npv: 2.1\n\n", ok + "\n"},
		{"upper-case value", "op: PING\nThread: 30051\nPV: 2.1\n\n",
			"Code: 403\nDiag: Forbidden: User is not authorized to request the operation.\nPV: 2.1\nThread: 30051\n\n"},
		{"no space", "Op:ping\nThread:30051\nPV:2.1\n\n", ok + "\n"},
		{"CRLF", "Op: ping\r\nThread: 30051\r\nPV: 2.1\r\n\r\n", ok + "\n"},
		{"no end", "Op: ping\nThread: 30051\nPV: 2.1", ok + "\n"},
		{"blank line within", "Op: ping\n\nThread: 30051\nPV: 2.1\n\n\n", ok + "\n"},
		{"odd thread", "Op: ping\nThread: abc\nPV: 2.1\n\n", "Code: 200\nDiag: OK\nPV: 2.1\nThread: abc\n\n"},
		{"two threads", "Op: ping\nThread: 30051\nThread: 2\nPV: 2.1\n\n", ok + "\n"},
		{"check without digest", "Op: check\nThread: 30051\nPV: 2.1\n\n", ok + "\n"},
		{"odd digest", "Op: check\nOp-Digest: xyz\nThread: 30051\nPV: 2.1\n\n", ok + "Count: 0\nWL-Count: 0\n\n"},
		{"upper-case digest", "Op: check\nOp-Digest: " + strings.ToUpper(d1) + "\nThread: 30051\nPV: 2.1\n\n",
			ok + "Count: 2\nWL-Count: 1\n\n"},
		{"first of two digests", "Op: check\nOp-Digest: " + d2 + "\nOp-Digest: " + d1 + "\nThread: 30051\nPV: 2.1\n\n",
			ok + "Count: 0\nWL-Count: 0\n\n"},
		{"long padding", "Op: ping\nX-Pad: " + strings.Repeat("x", 8100) + "\nThread: 30051\nPV: 2.1\n\n", ok + "\n"},
		{"unknown user", "Op: ping\nThread: 30051\nPV: 2.1\nUser: bob\n" + tail,
			"Code: 401\nDiag: Unauthorized: Signature Error: Unknown user.\nPV: 2.1\nThread: 30051\n\n"},
		{"closed user", "Op: ping\nThread: 30051\nPV: 2.1\nUser: gone\n" + tail,
			"Code: 401\nDiag: Unauthorized: Signature Error: Unknown user.\nPV: 2.1\nThread: 30051\n\n"},
		{"broken accounts", "Op: ping\nThread: 30051\nPV: 2.1\nUser: odd\n" + tail,
			"Code: 500\nDiag: Internal Server Error: see the log of the node\nPV: 2.1\nThread: 30051\n\n"},
		{"old signature", "Op: ping\nThread: 30051\nPV: 2.1\nUser: alice\nTime: 1000\nSig: 00\n\n",
			"Code: 401\nDiag: Unauthorized: Signature Error: Timestamp not within allowed range.\nPV: 2.1\nThread: 30051\n\n"},
		{"wrong signature", "Op: ping\nThread: 30051\nPV: 2.1\nUser: alice\nTime: " + strconv.FormatInt(time.Now().Unix(),
			10) + "\nSig: 528442620f4f3c0fe6cdef6f81ed5dd69882b76f\n\n",
			"Code: 401\nDiag: Unauthorized: Signature Error: Invalid signature.\nPV: 2.1\nThread: 30051\n\n"},
		{"no time", "Op: ping\nThread: 30051\nPV: 2.1\nUser: alice\nSig: 00\n\n",
			"Code: 400\nDiag: Bad request: Time of a signed request is not a number\nPV: 2.1\nThread: 30051\n\n"},
		{"no thread", "Op: ping\nPV: 2.1\n\n", ""},
		{"no op", "Thread: 30051\nPV: 2.1\n\n", ""},
		{"empty", "", ""},
		{"noise", "\x00\xff\xfe: \n::::\n", ""},
		{"too large", strings.Repeat("A", 9000), ""},
	}
	for _, tt := range tests {
		if got := exchange(t, conn, tt.request); got != tt.want {
			t.Errorf("%s: answer %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestSignature has the worked example of docs/specs/pyzor.md#signatures.
func TestSignature(t *testing.T) {
	key := accountKey([]byte("alice"), []byte(strings.ToUpper(aliceKey)))
	if got := string(key[:]); got != "aac70190808b3008d8bd2c1866a1516293dd7655" {
		t.Errorf("K = %s", got)
	}
	none := accountKey([]byte(anonymous), nil)
	if got := string(none[:]); got != "993fddad78000f2246ee74c4b1b9edcb89f91937" {
		t.Errorf("K of anonymous = %s", got)
	}
	r := Request{
		Op: []byte("whitelist"), Digests: [][]byte{[]byte(d1)}, Thread: []byte("6081"),
		User: []byte("alice"), Time: []byte("1795267705"),
	}
	datagram := r.Append(nil, []byte(aliceKey))
	const want = "Op: whitelist\nOp-Digest: " + d1 +
		"\nOp-Spec: 20,3,60,3\nThread: 6081\nPV: 2.1\nUser: alice\nTime: 1795267705\n" +
		"Sig: 7c79abaa684fc6f1302d44ab30f7edd09005eade\n\n"
	if string(datagram) != want {
		t.Errorf("request %q, want %q", datagram, want)
	}
	var back Request
	if !back.Parse(datagram) || string(back.signed()) != strings.Split(want, "\nSig")[0] {
		t.Errorf("signed text %q", back.signed())
	}
}

func TestVotes(t *testing.T) {
	house := &prototest.House{}
	address := start(t, &Server{Clearinghouse: house}, "127.0.0.1:0")
	alice := newClient(t, address, Options{User: "alice", Key: aliceKey})
	nobody := newClient(t, address, Options{})
	check := func(when string, spam, ham int64) {
		t.Helper()
		r, err := nobody.Do(t.Context(), OpCheck, digest(t, d1))
		if err != nil {
			t.Fatal(err)
		}
		gotSpam, err1 := r.Count("Count")
		gotHam, err2 := r.Count("WL-Count")
		if err := errors.Join(err1, err2); err != nil || gotSpam != spam || gotHam != ham {
			t.Errorf("%s: count %d, whitelisted %d, %v; want %d, %d", when, gotSpam, gotHam, err, spam, ham)
		}
	}
	check("at first", 0, 0)
	if _, err := nobody.Do(t.Context(), OpReport, digest(t, d1)); err != nil {
		t.Fatal(err)
	}
	check("reported", 1, 0)
	if _, err := alice.Do(t.Context(), OpReport, digest(t, d1), digest(t, d2), digest(t, d1)); err != nil {
		t.Fatal(err)
	}
	check("reported twice in one request by another", 2, 0)
	if _, err := house.Report(t.Context(), bulkhead.Report{Signatures: []bulkhead.Signature{digest(t, d1)},
		Vote: bulkhead.Spam}); err != nil {
		t.Fatal(err)
	}
	check("reported by a third one", 3, 0)
	if _, err := alice.Do(t.Context(), OpWhitelist, digest(t, d1)); err != nil {
		t.Fatal(err)
	}
	check("whitelisted", 3, 1)
	if _, err := nobody.Do(t.Context(), OpWhitelist, digest(t, d1)); !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("anonymous whitelist: %v", err)
	}
	wrong := newClient(t, address, Options{User: "alice", Key: d2})
	if _, err := wrong.Do(t.Context(), OpReport, digest(t, d1)); !errors.Is(err, bulkhead.ErrUnauthorised) {
		t.Errorf("wrong key: %v", err)
	}
	check("after refusals", 3, 1)
	empty := digest(t, digests.Empty)
	if r, err := nobody.Do(t.Context(), OpReport, empty); r == nil || r.Code != 422 {
		t.Errorf("report of the digest of nothing: %+v, %v, want code 422", r, err)
	}
	for _, r := range house.Reports() {
		for _, s := range r.Signatures {
			if s == empty {
				t.Error("the digest of nothing was counted")
			}
		}
	}
	if first := house.Reports()[0].Reporter; first.Account != "" || !first.Addr.IsLoopback() {
		t.Errorf("first reporter %+v", first)
	}
	if second := house.Reports()[1].Reporter; second.Account != "alice" {
		t.Errorf("second reporter %+v", second)
	}
	if _, err := house.Report(t.Context(), bulkhead.Report{Signatures: []bulkhead.Signature{digest(t, d1)},
		Vote: bulkhead.Revocation}); err != nil {
		t.Fatal(err)
	}
	check("revoked", 0, 1)
}

func TestCountsStayBelowSpamAssassinsLimits(t *testing.T) {
	spam, ham, _ := counts(&bulkhead.Verdict{Findings: []bulkhead.Finding{{Spam: bulkhead.Many, Ham: bulkhead.Many}}}, 0)
	if spam >= 1_000_000 || ham >= 10_000 {
		t.Errorf("counts %d and %d", spam, ham)
	}
}

func TestAccess(t *testing.T) {
	s := &Server{Clearinghouse: &prototest.House{}, Anonymous: []Op{OpPing}, Users: []Op{OpPing, OpCheck}}
	address := start(t, s, "127.0.0.1:0")
	for _, user := range []string{"", "alice"} {
		for _, op := range Ops() {
			c := newClient(t, address, Options{User: user, Key: aliceKey})
			want := op == OpPing || op == OpCheck && user == "alice"
			if _, err := c.Do(t.Context(), op, digest(t, d1)); (err == nil) != want || err != nil &&
				!errors.Is(err, bulkhead.ErrForbidden) {
				t.Errorf("%s by %q: %v, want allowed %v", op, user, err, want)
			}
		}
	}
}

func TestHouseErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		code string
	}{
		{bulkhead.ErrForbidden, "forbidden"}, {bulkhead.ErrReadOnly, "503"}, {bulkhead.ErrOverLimit, "503"},
		{bulkhead.ErrMalformed, "malformed"}, {errors.New("disk on fire"), "500"},
	} {
		address := start(t, &Server{Clearinghouse: &prototest.House{Err: tt.err}}, "127.0.0.1:0")
		for _, op := range []Op{OpCheck, OpReport} {
			_, err := newClient(t, address, Options{}).Do(t.Context(), op, digest(t, d1))
			if err == nil || !strings.Contains(err.Error(), tt.code) || strings.Contains(err.Error(), "fire") {
				t.Errorf("%s with %v: %v, want %s", op, tt.err, err, tt.code)
			}
		}
	}
}

// TestNoReflector: the rate of answers longer than their request is limited.
func TestNoReflector(t *testing.T) {
	s := &Server{Clearinghouse: &prototest.House{}, Amplified: door.Rate{PerSecond: 1e-6, Burst: 3}}
	conn := dial(t, start(t, s, "127.0.0.1:0"))
	answered := 0
	for range 20 {
		if exchange(t, conn, "Op: ping\nThread: 2\nPV: 2.1\n\n") != "" {
			answered++
		}
		// A forged name does not help.
		if exchange(t, conn, "Op: a\nThread: 2\nUser: bob\nPV: 2.1\n\n") != "" {
			answered++
		}
	}
	if answered != 3 {
		t.Errorf("%d long answers, want 3", answered)
	}
	if got := s.Stats.Unanswered.Load(); got != 37 {
		t.Errorf("Stats.Unanswered = %d, want 37", got)
	}
}

// TestAnswersAreShort checks for every operation, known or not, with a signature or without one, that an
// answer has at most 1.5 times the bytes of its request, and that a request as clients send it
// is answered.
func TestAnswersAreShort(t *testing.T) {
	s := &Server{Clearinghouse: &prototest.House{}, Amplified: door.Rate{PerSecond: 1e6, Burst: 1e6}}
	conn := dial(t, start(t, s, "127.0.0.1:0"))
	const anonymous = "User: anonymous\nTime: 1795267705\nSig: 13283d56397995f0dbc16a091093b33da33d1f69\n"
	for _, op := range []string{"ping", "pong", "check", "info", "", "x"} { // votes are answered later
		for _, digests := range []int{0, 1, 3} {
			for _, thread := range []string{"", "2", "30051"} {
				for _, tail := range []string{"", "PV: 2.1\n", "PV: 9\n", "PV: 2.1\nUser: bob\n", "PV: 2.1\n" + anonymous} {
					request := "Op: " + op + "\n" + strings.Repeat("Op-Digest: "+d1+"\n", digests) +
						"Thread: " + thread + "\n" + tail + "\n"
					answer := exchange(t, conn, request)
					if door.Amplifies(len(request), len(answer)) {
						t.Errorf("%d bytes for %d: %q for %q", len(answer), len(request), answer, request)
					}
					if answer == "" && thread == "30051" && strings.HasSuffix(tail, anonymous) && op != "" {
						t.Errorf("no answer to %q", request)
					}
				}
			}
		}
	}
}

// TestReplySource: the answer comes from the address that was asked, on every
// address family.
func TestReplySource(t *testing.T) {
	address := start(t, &Server{Clearinghouse: &prototest.House{}}, ":0")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "127.0.0.99", "::1"} {
		c := newClient(t, net.JoinHostPort(host, port), Options{})
		if _, err := c.Do(t.Context(), OpPing); err != nil {
			t.Errorf("ping of %s: %v", host, err)
		}
	}
}

func TestManyClients(t *testing.T) {
	house := &prototest.House{}
	address := start(t, &Server{Clearinghouse: house}, "127.0.0.1:0")
	var wg sync.WaitGroup
	for i := range 50 {
		c := newClient(t, address, Options{Timeout: 20 * time.Second})
		wg.Go(func() {
			sig := digest(t, fmt.Sprintf("%040x", i))
			for j := range 10 {
				if _, err := c.Do(context.Background(), OpReport, sig); err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				r, err := c.Do(context.Background(), OpCheck, sig)
				if err != nil || r.Values["Count"] != "1" {
					t.Errorf("client %d: count %v after %d reports, %v", i, r, j+1, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestHelper(t *testing.T) {
	house := &prototest.House{}
	mail := []byte("Subject: x\n\nthis is the text of the mail\nwith a second line of it\n")
	h := &Helper{Clearinghouse: house, MailServer: door.MailServer{MaxMail: 1 << 16}}
	address := prototest.ServeStream(t, "127.0.0.1:0", h)
	ask := func(mail []byte) string {
		got, _ := prototest.Ask(t, address, mail) // it hangs up on what it refuses
		return got
	}
	line := func(spam, ham int) string { return fmt.Sprintf("%s\t(200, 'OK')\t%d\t%d\n", address, spam, ham) }
	if got := ask(mail); got != line(0, 0) {
		t.Errorf("unknown mail: %q", got)
	}
	sigs, err := digests.Signatures(t.Context(), mail)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 7 {
		r := bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam, Reporter: bulkhead.Reporter{Account: strconv.Itoa(i)}}
		if _, err := house.Report(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if got := ask(mail); got != line(7, 0) {
		t.Errorf("reported mail: %q", got)
	}
	if got := ask(nil); got != line(0, 0) {
		t.Errorf("empty mail: %q", got)
	}
	if got := ask(make([]byte, 1<<17)); got != "" {
		t.Errorf("huge mail: %q, want no answer", got)
	}
}

func FuzzRequest(f *testing.F) {
	r := Request{Op: []byte("report"), Digests: [][]byte{[]byte(d1), []byte(d2)}, Thread: []byte("6081"),
		User: []byte("alice"), Time: []byte("1795267705")}
	f.Add(r.Append(nil, []byte(aliceKey)))
	f.Add([]byte("Op: check\nOp-Digest: " + d1 + "\nThread: 23360\nPV: 2.1\nTime: 1\nSig: 00\n\n"))
	f.Add([]byte("op:ping\r\n\r\nthread: 1\r\n 2\r\nSig: a\nSig: b\nPV:\n"))
	f.Add([]byte("op:\nthread:\r "))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		var r Request
		ok := r.Parse(data)
		if ok != (r.hasOp && r.hasThread) || len(r.Digests) > maxDigests {
			t.Errorf("%q: parsed %v as %+v", data, ok, r)
		}
		text := r.signed()
		if len(text) > len(data) {
			t.Errorf("%q: signed text %q", data, text)
		}
		if !bytes.Equal(before, data) {
			t.Error("the datagram was changed")
		}
		if !ok {
			return
		}
		// The printed form parses to the same request.
		r.hasSig = false
		var again Request
		if !again.Parse(r.Append(nil, nil)) || !bytes.Equal(again.Op, r.Op) || !bytes.Equal(again.Thread, r.Thread) ||
			len(again.Digests) != len(r.Digests) {
			t.Errorf("%q printed and parsed is %+v", data, again)
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add([]byte("Code: 200\nDiag: OK\nPV: 2.1\nThread: 31741\nCount: 0\nWL-Count: 0\n\n"))
	f.Add([]byte("Code: x\nCode: 1\n: \n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseReply(data)
		if (r == nil) == (err == nil) {
			t.Fatalf("%q: %+v and %v", data, r, err)
		}
		if err == nil && r.Err() == nil && r.Code != 200 {
			t.Errorf("%q: code %d is no error", data, r.Code)
		}
	})
}

// FuzzHandle sends datagrams of any kind to a server that must then answer a ping.
func FuzzHandle(f *testing.F) {
	f.Add([]byte("Op: report\nOp-Digest: " + d1 + "\nThread: 1\nPV: 2.1\n\n"))
	f.Add([]byte("Op: info\nOp-Digest: " + d1 + "\nThread: 1\nPV: 2.1\nUser: alice\nTime: 9\nSig: 1\n\n"))
	s := &Server{Clearinghouse: &prototest.House{}}
	address := start(f, s, "127.0.0.1:0")
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 60000 {
			return
		}
		conn := dial(t, address)
		defer conn.Close()
		if answer := exchange(t, conn, string(data)); answer != "" {
			if !strings.HasPrefix(answer, "Code: ") || !strings.HasSuffix(answer, "\n\n") {
				t.Errorf("answer %q to %q", answer, data)
			}
		}
		if s.PacketStats().Panics.Load() > 0 || s.Stats.Faults.Load() > 0 {
			t.Errorf("%q: a panic or a fault", data)
		}
	})
}

// BenchmarkHandle measures checks and pings in batches, without the network.
func BenchmarkHandle(b *testing.B) {
	s := &Server{Clearinghouse: &prototest.House{}}
	s.prepare()
	packets := make([]*door.Packet, 64)
	for i := range packets {
		r := Request{Op: []byte("check"), Digests: [][]byte{hex.AppendEncode(nil, make([]byte, 20))},
			Thread: []byte("6081"), Time: []byte("1795267705")}
		packets[i] = &door.Packet{Data: r.Append(nil, nil)}
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, p := range packets {
			p.Reply = p.Reply[:0]
		}
		s.handle(b.Context(), packets)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(packets)), "ns/request")
}

// TestHelperEnds: reading a mail ends with its context, and the mail gets no
// answer.
func TestHelperEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := &Helper{Clearinghouse: &prototest.House{}}
	mail := []byte("Subject: x\n\nthis is the text of the mail\nwith a second line of it\n")
	if _, _, err := h.look(ctx, mail, bulkhead.Reporter{}); !errors.Is(err, context.Canceled) {
		t.Errorf("look after the end of its context: %v", err)
	}
}
