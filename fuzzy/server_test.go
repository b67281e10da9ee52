package fuzzy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// serve runs s over loopback UDP until the test ends and returns its address.
func serve(t testing.TB, s *Server) string {
	t.Helper()
	return prototest.ServePackets(t, "127.0.0.1:0", 1, s).String()
}

func dial(t testing.TB, address string, key *[32]byte) *Client {
	t.Helper()
	c, err := Dial(t.Context(), address, &Options{ServerKey: key, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func digestOf(n byte) (d [DigestSize]byte) {
	for i := range d {
		d[i] = n + byte(i)
	}
	return d
}

func mustCheck(t *testing.T, c *Client, d [DigestSize]byte, shingles *[32]uint64) Reply {
	t.Helper()
	r, err := c.Check(t.Context(), d, shingles)
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWriteCheckDelete(t *testing.T) {
	house := new(prototest.House)
	c := dial(t, serve(t, &Server{Clearinghouse: house}), nil)
	d := digestOf(1)
	if r := mustCheck(t, c, d, nil); r.OK() || r.Value != 0 {
		t.Fatalf("unknown digest: %+v", r)
	}
	must(t, c.Write(t.Context(), d, nil, 1, 7))
	must(t, c.Write(t.Context(), d, nil, 1, 3))
	must(t, c.Write(t.Context(), d, nil, 2, 4))
	r := mustCheck(t, c, d, nil)
	if r.Value != 10 || r.Flag != 1 || r.Prob != 1 || r.Digest != d || !r.Stored || r.Time == 0 {
		t.Errorf("after 7+3 on list 1: %+v", r)
	}
	if len(r.Extra) != 1 || r.Extra[0] != (FlagValue{4, 2}) {
		t.Errorf("extra lists %v, want 4 on list 2", r.Extra)
	}
	must(t, c.Write(t.Context(), d, nil, 1, -8))
	if r := mustCheck(t, c, d, nil); r.Flag != 2 || r.Value != 4 || len(r.Extra) != 1 || r.Extra[0].Value != 2 {
		t.Errorf("after -8 on list 1: %+v", r)
	}
	must(t, c.Delete(t.Context(), d, nil))
	if r := mustCheck(t, c, d, nil); r.OK() {
		t.Errorf("after the delete: %+v", r)
	}
	must(t, c.Write(t.Context(), d, nil, 1, 5))
	if r := mustCheck(t, c, d, nil); r.Value != 5 || r.Flag != 1 {
		t.Errorf("written anew: %+v", r)
	}
}

// TestUnlisted: a write to a spam list is refused for a digest that may not be listed. Other writes
// that came with it are not refused, and neither are other lists and votes.
func TestUnlisted(t *testing.T) {
	white, other := digestOf(1), digestOf(2)
	house := &prototest.House{White: map[bulkhead.Signature]bool{plainSignature(&white): true}}
	s := &Server{Clearinghouse: house}
	c := dial(t, serve(t, s), nil)
	for _, tt := range []struct {
		flag  uint8
		value int32
		d     [DigestSize]byte
		want  int32
	}{{1, 5, white, CodeSkipped}, {1, 5, other, 0}, {1, -5, white, 0}, {9, 5, white, 0}, {1, 1, white, CodeSkipped}} {
		_, err := c.Do(t.Context(), Request{Command: Write, Flag: tt.flag, Value: tt.value, Digest: tt.d})
		if tt.want == 0 {
			must(t, err)
		} else if !errors.Is(err, bulkhead.ErrForbidden) || !strings.HasSuffix(err.Error(), fmt.Sprint(tt.want)) {
			t.Errorf("write of %d to list %d: %v, want %d", tt.value, tt.flag, err, tt.want)
		}
	}
	var b updates
	jobs := []*job{{}, {}, {}}
	for i, d := range [][DigestSize]byte{other, white, digestOf(3)} {
		jobs[i].req = Request{Command: Write, Flag: 1, Value: 1, Digest: d}
		b.add(jobs[i], bulkhead.Spam, new(raising))
	}
	s.commit(t.Context(), b)
	if jobs[0].err != nil || jobs[1].err != errUnlisted || jobs[2].err != nil {
		t.Errorf("together: %v, %v, %v; want the second refused", jobs[0].err, jobs[1].err, jobs[2].err)
	}
}

// A stepping house counts and reports in one step, and records the steps.
type stepping struct {
	*prototest.Tally
	mu    sync.Mutex
	steps []string
}

func (h *stepping) CountAndReport(ctx context.Context, sigs []bulkhead.Signature, n []uint32,
	r bulkhead.Report) (bulkhead.Receipt, error) {
	h.note(fmt.Sprintf("%v by %q with %d counters", r.Vote, r.Reporter.Account, len(sigs)))
	if err := h.Tally.Count(ctx, sigs, n); err != nil {
		return bulkhead.Receipt{}, err
	}
	return h.Tally.Report(ctx, r)
}

func (h *stepping) Count(ctx context.Context, sigs []bulkhead.Signature, n []uint32) error {
	h.note(fmt.Sprintf("%d counters", len(sigs)))
	return h.Tally.Count(ctx, sigs, n)
}

func (h *stepping) note(step string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps = append(h.steps, step)
}

// TestOneStep: what an update counts and its vote are one step, and so are several updates of one reporter that vote
// alike. Each step marks its lists.
func TestOneStep(t *testing.T) {
	house := &stepping{Tally: prototest.NewTally(2)}
	s := &Server{Clearinghouse: house}
	c := dial(t, serve(t, s), nil)
	steps := func(want ...string) {
		t.Helper()
		house.mu.Lock()
		defer house.mu.Unlock()
		slices.Sort(house.steps)
		if !slices.Equal(house.steps, want) {
			t.Errorf("steps %q, want %q", house.steps, want)
		}
		house.steps = nil
	}
	must(t, c.Write(t.Context(), digestOf(1), nil, 1, 7))
	steps(`spam by "" with 4 counters`)
	must(t, c.Write(t.Context(), digestOf(1), nil, 9, 7)) // a list without votes
	steps("4 counters")
	must(t, c.Delete(t.Context(), digestOf(1), nil))
	steps(`revoke by "" with 13 counters`)

	var jobs []*job
	for i, flag := range []uint8{1, 1, 3, 9, 11, 9} {
		jobs = append(jobs, &job{req: Request{Command: Write, Flag: flag, Value: 2, Digest: digestOf(byte(10 + i))}})
	}
	jobs[1].key = &Key{Account: "ann"}
	for _, j := range jobs {
		s.recognise(j)
	}
	s.updateAll(t.Context(), jobs)
	steps("7 counters", `ham by "" with 4 counters`, `spam by "" with 8 counters`, `spam by "ann" with 4 counters`)
	for i, j := range jobs {
		if r := mustCheck(t, c, digestOf(byte(10+i)), nil); j.err != nil || r.Value < 2 {
			t.Errorf("update %d: %v, found %+v", i, j.err, r)
		}
	}
}

// TestVotesCrossOver: a write to the spam list lists the digest for all front doors, a delete
// revokes it, and a digest that others listed is found here.
func TestVotesCrossOver(t *testing.T) {
	house := new(prototest.House)
	c := dial(t, serve(t, &Server{Clearinghouse: house}), nil)
	d, other := digestOf(1), digestOf(2)
	judged := func(d [DigestSize]byte) bulkhead.Judgement {
		v, err := house.Check(t.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{plainSignature(&d)}})
		must(t, err)
		return v.Judged
	}
	must(t, c.Write(t.Context(), d, nil, 1, 7))
	if got := judged(d); got != bulkhead.JudgedSpam {
		t.Errorf("after a write to list 1 the digest is judged %v", got)
	}
	must(t, c.Delete(t.Context(), d, nil))
	if got := judged(d); got != bulkhead.Revoked {
		t.Errorf("after a delete the digest is judged %v", got)
	}
	_, err := house.Report(t.Context(), bulkhead.Report{Signatures: []bulkhead.Signature{plainSignature(&other)},
		Vote: bulkhead.Spam})
	must(t, err)
	if r := mustCheck(t, c, other, nil); !r.OK() || r.Flag != 1 || r.Value != 25 {
		t.Errorf("a digest listed elsewhere: %+v", r)
	}
}

func TestNearCopies(t *testing.T) {
	c := dial(t, serve(t, &Server{Clearinghouse: new(prototest.House)}), nil)
	random := rand.New(rand.NewPCG(3, 4))
	var stored [32]uint64
	for i := range stored {
		stored[i] = random.Uint64()
	}
	must(t, c.Write(t.Context(), digestOf(1), &stored, 1, 9))
	if r := mustCheck(t, c, digestOf(1), &stored); r.Prob != 1 || r.Value != 9 {
		t.Fatalf("the text itself: %+v", r)
	}
	found := func(equal, rounds int) (n int, prob float64) {
		for range rounds {
			near := stored
			for _, i := range random.Perm(32)[equal:] {
				near[i] = random.Uint64()
			}
			r := mustCheck(t, c, digestOf(9), &near)
			if !r.OK() {
				continue
			}
			n++
			prob += float64(r.Prob)
			if r.Value != 9 || r.Flag != 1 || r.Stored {
				t.Fatalf("near copy with %d equal shingles: %+v", equal, r)
			}
		}
		return n, prob / float64(max(n, 1))
	}
	for _, tt := range []struct {
		equal    int
		min, max float64 // share of copies that are found
	}{{32, 1, 1}, {28, 0.99, 1}, {24, 0.94, 1}, {20, 0.4, 1}, {13, 0, 0.02}, {8, 0, 0}} {
		const rounds = 400
		n, prob := found(tt.equal, rounds)
		if share := float64(n) / rounds; share < tt.min || share > tt.max {
			t.Errorf("%d equal shingles: %.3f found, want %.2f to %.2f", tt.equal, share, tt.min, tt.max)
		}
		if want := float64(tt.equal) / 32; tt.equal >= 24 && (prob < want-0.06 || prob > want+0.06) {
			t.Errorf("%d equal shingles: mean prob %.3f, want about %.3f", tt.equal, prob, want)
		}
	}
	must(t, c.Delete(t.Context(), digestOf(1), &stored))
	if n, _ := found(28, 50); n != 0 {
		t.Errorf("after the delete %d of 50 near copies are found", n)
	}
	must(t, c.Write(t.Context(), digestOf(1), &stored, 1, 9))
	if n, _ := found(28, 50); n != 50 {
		t.Errorf("written anew, %d of 50 near copies are found", n)
	}
}

// TestRetransmission: the same datagram counts once, even if other clients send equal ones.
func TestRetransmission(t *testing.T) {
	s := &Server{Clearinghouse: new(prototest.House)}
	address := serve(t, s)
	a, b := dial(t, address, nil), dial(t, address, nil)
	write := Request{Version: 4, Command: Write, Flag: 1, Value: 5, Tag: 77, Digest: digestOf(1)}
	for _, c := range []*Client{a, a, b, a} {
		if r, err := c.Do(t.Context(), write); err != nil || r.Prob != 1 || r.Value != 0 || r.Flag != 1 {
			t.Fatalf("write: %+v, %v", r, err)
		}
	}
	if r := mustCheck(t, a, digestOf(1), nil); r.Value != 10 {
		t.Errorf("value %d after two clients wrote 5, want 10", r.Value)
	}
	if n := s.Stats.Repeated.Load(); n != 2 {
		t.Errorf("%d retransmissions recognised, want 2", n)
	}
	write.Tag = 78
	if _, err := a.Do(t.Context(), write); err != nil {
		t.Fatal(err)
	}
	if r := mustCheck(t, a, digestOf(1), nil); r.Value != 15 {
		t.Errorf("value %d after a write with another tag, want 15", r.Value)
	}
}

func TestRecentForgets(t *testing.T) {
	r := newRecent(8)
	now := time.Unix(1000, 0)
	id := func(i int) (id recentID) { binary.LittleEndian.PutUint32(id[:], uint32(i)); return id }
	e, state := r.enter(id(1), now)
	if _, again := r.enter(id(1), now); state != recentNew || again != recentBusy {
		t.Errorf("states %v, %v, want new, busy", state, again)
	}
	r.finish(e)
	if _, state := r.enter(id(1), now.Add(recentTime-1)); state != recentDone {
		t.Errorf("state %v, want done", state)
	}
	if _, state := r.enter(id(1), now.Add(recentTime)); state != recentNew {
		t.Errorf("state %v after its time, want new", state)
	}
	for i := range 100 {
		r.enter(id(i), now)
		if len(r.entries) > 8 {
			t.Fatalf("%d entries, limit 8", len(r.entries))
		}
	}
	e, _ = r.enter(id(200), now)
	r.forget(e)
	if _, state := r.enter(id(200), now); state != recentNew {
		t.Errorf("state %v of an update that failed, want new", state)
	}
}

func TestEncrypted(t *testing.T) {
	pair, err := NewKeyPair(nil)
	must(t, err)
	reader, err := NewKeyPair(nil)
	must(t, err)
	nowhere := []netip.Prefix{}
	s := &Server{Clearinghouse: new(prototest.House), EncryptedOnly: true, UpdateFrom: nowhere, Keys: []*Key{
		{KeyPair: pair, Name: "writers", Update: true},
		{KeyPair: reader, Name: "readers", Hidden: []uint8{2}},
	}}
	address := serve(t, s)
	w, r, plain := dial(t, address, &pair.Public), dial(t, address, &reader.Public), dial(t, address, nil)
	must(t, w.Write(t.Context(), digestOf(1), nil, 1, 5))
	must(t, w.Write(t.Context(), digestOf(2), nil, 2, 5))
	if got := mustCheck(t, r, digestOf(1), nil); got.Value != 5 {
		t.Errorf("encrypted check: %+v", got)
	}
	if got := mustCheck(t, r, digestOf(2), nil); got.OK() {
		t.Errorf("a hidden list is told: %+v", got)
	}
	if err := r.Write(t.Context(), digestOf(3), nil, 1, 5); !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("write under a key for reading: %v, want ErrForbidden", err)
	}
	if _, err := plain.Check(t.Context(), digestOf(1), nil); !errors.Is(err, bulkhead.ErrUnauthorised) {
		t.Errorf("plain check: %v, want ErrUnauthorised", err)
	}
	old := Request{Version: 4, Command: Check, Digest: digestOf(1)}
	if _, err := plain.Do(t.Context(), old); !errors.Is(err, bulkhead.ErrOverLimit) {
		t.Errorf("plain check of an old client: %v, want code 403", err)
	}
	wrong, err := NewKeyPair(nil)
	must(t, err)
	stranger := dial(t, address, &wrong.Public)
	stranger.opts.Timeout, stranger.opts.Retransmits = 100*time.Millisecond, -1
	if _, err := stranger.Check(t.Context(), digestOf(1), nil); !errors.Is(err, ErrNoReply) {
		t.Errorf("check under an unknown key: %v, want no reply", err)
	}
}

func TestKeyLimits(t *testing.T) {
	pair, err := NewKeyPair(nil)
	must(t, err)
	now := time.Unix(5000, 0)
	key := &Key{KeyPair: pair, Expires: now.Add(-time.Second)}
	c := dial(t, serve(t, &Server{Clearinghouse: new(prototest.House), Keys: []*Key{key}, Now: func() time.Time {
		return now
	}}), &pair.Public)
	if _, err := c.Check(t.Context(), digestOf(1), nil); !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("expired key: %v, want ErrForbidden", err)
	}
	slow := &Key{KeyPair: pair, Rate: door.Rate{PerSecond: 1e-6, Burst: 2}}
	c = dial(t, serve(t, &Server{Clearinghouse: new(prototest.House), Keys: []*Key{slow}}), &pair.Public)
	for i := range 3 {
		if _, err := c.Check(t.Context(), digestOf(1), nil); (i < 2) != (err == nil) {
			t.Errorf("request %d of 2 allowed: %v", i+1, err)
		}
	}
}

func TestAccess(t *testing.T) {
	for name, s := range map[string]*Server{
		"read only":       {ReadOnly: true},
		"another network": {UpdateFrom: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
	} {
		s.Clearinghouse = new(prototest.House)
		c := dial(t, serve(t, s), nil)
		if err := c.Write(t.Context(), digestOf(1), nil, 1, 1); !errors.Is(err, bulkhead.ErrForbidden) {
			t.Errorf("%s: write: %v, want ErrForbidden", name, err)
		}
		if err := c.Delete(t.Context(), digestOf(1), nil); !errors.Is(err, bulkhead.ErrForbidden) {
			t.Errorf("%s: delete: %v, want ErrForbidden", name, err)
		}
		mustCheck(t, c, digestOf(1), nil)
	}
	s := &Server{Clearinghouse: new(prototest.House)}
	for range 2 { // its defaults are no permission
		conn, err := net.ListenUDP("udp", nil)
		must(t, err)
		if err := s.ServePacket(conn); err == nil || errors.Is(err, door.ErrServerClosed) {
			t.Errorf("an open server on all addresses ends with %v, want a refusal", err)
		}
	}
}

// TestFaults: an error of the clearinghouse is answered with a code and counts nothing, and the
// retransmission that follows is tried again.
func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want error
	}{{bulkhead.ErrReadOnly, nil}, {bulkhead.ErrForbidden, bulkhead.ErrForbidden},
		{bulkhead.ErrOverLimit, bulkhead.ErrOverLimit}} {
		s := &Server{Clearinghouse: &prototest.House{Err: tt.err}}
		c := dial(t, serve(t, s), nil)
		for range 2 {
			write := Request{Command: Write, Digest: digestOf(1), Tag: 5, Value: 1, Flag: 1}
			if _, err := c.Do(t.Context(), write); err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("house says %v: write gives %v, want %v", tt.err, err, tt.want)
			}
		}
		if _, err := c.Check(t.Context(), digestOf(1), nil); err == nil {
			t.Errorf("house says %v: check gives no error", tt.err)
		}
		if n := s.Stats.Writes.Load() + s.Stats.Repeated.Load(); n != 0 {
			t.Errorf("house says %v: %d writes or repeats counted", tt.err, n)
		}
	}
}

func TestStatAndPing(t *testing.T) {
	s := &Server{Clearinghouse: new(prototest.House), Stored: func() uint64 { return 5<<32 | 7 }}
	c := dial(t, serve(t, s), nil)
	if r, err := c.Do(t.Context(), Request{Command: Stat}); err != nil || r.Flag != 7 || r.Value != 5 || r.Prob != 1 {
		t.Errorf("stat: %+v, %v", r, err)
	}
	if r, err := c.Do(t.Context(), Request{Command: Ping, Value: 1234}); err != nil || r.Value != 1234 || r.Prob != 1 {
		t.Errorf("ping: %+v, %v", r, err)
	}
	c = dial(t, serve(t, &Server{Clearinghouse: new(prototest.House)}), nil) // it counts what is written itself
	if r, err := c.Do(t.Context(), Request{Command: Stat}); err != nil || r.Flag != 0 || r.Value != 0 || r.Prob != 1 {
		t.Errorf("stat before the first write: %+v, %v", r, err)
	}
}

// TestGarbage: unreadable datagrams get no answer and do no harm.
func TestGarbage(t *testing.T) {
	pair, err := NewKeyPair(nil)
	must(t, err)
	s := &Server{Clearinghouse: new(prototest.House), Keys: []*Key{{KeyPair: pair}}}
	address := serve(t, s)
	conn, err := net.Dial("udp", address)
	must(t, err)
	defer conn.Close()
	random := rand.NewChaCha8([32]byte{1})
	for n := 0; n <= 1024; n += 7 {
		b := make([]byte, n)
		random.Read(b)
		if n%2 == 0 && n >= 4 {
			copy(b, magic)
		}
		conn.Write(b)
	}
	c := dial(t, address, nil)
	mustCheck(t, c, digestOf(1), nil)
	conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := conn.Read(make([]byte, 2048)); err == nil {
		t.Errorf("garbage is answered with %d bytes", n)
	}
}

func TestStream(t *testing.T) {
	s := &Server{Clearinghouse: new(prototest.House)}
	address := prototest.ServeStream(t, "127.0.0.1:0", s)
	conn, err := net.Dial("tcp", address.String())
	must(t, err)
	defer conn.Close()
	do := func(r Request) Reply {
		plain := r.Append(nil)
		conn.Write(append(binary.LittleEndian.AppendUint16(nil, uint16(len(plain))), plain...))
		var size [2]byte
		_, err := io.ReadFull(conn, size[:])
		must(t, err)
		data := make([]byte, binary.LittleEndian.Uint16(size[:]))
		_, err = io.ReadFull(conn, data)
		must(t, err)
		reply, err := ParseReply(data)
		must(t, err)
		return reply
	}
	if r := do(Request{Version: 5, Command: Write, Digest: digestOf(1), Flag: 1, Value: 5, Tag: 1}); !r.OK() {
		t.Errorf("write: %+v", r)
	}
	if r := do(Request{Version: 4, Command: Check, Digest: digestOf(1), Tag: 2}); r.Value != 5 || r.Tag != 2 {
		t.Errorf("check: %+v", r)
	}
	conn.Write([]byte{0, 0})
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a frame of no bytes does not close the connection")
	}
}

// FuzzServer sends arbitrary datagrams to a server: no panic, and never more than one bounded
// answer.
func FuzzServer(f *testing.F) {
	pair, err := ParseSecret(vectorSecretText)
	if err != nil {
		f.Fatal(err)
	}
	f.Add((&Request{Version: 4, Command: Write, Value: 1, Shingled: true}).Append(nil))
	f.Add((&Request{Version: 5, Command: Delete}).Append(nil))
	f.Add(unhex(f, "72736665", vectorPublic[:16], vectorClientPublic, vectorNonce, vectorMAC, vectorCipher))
	s := &Server{Clearinghouse: new(prototest.House), Keys: []*Key{{KeyPair: pair}}}
	s.prepare()
	f.Fuzz(func(t *testing.T, data []byte) {
		j := &job{client: netip.MustParseAddrPort("127.0.0.1:5"), data: data}
		sc := &scratch{jobs: []*job{j}}
		s.answer(t.Context(), sc)
		if j.update {
			s.updateAll(t.Context(), []*job{j})
		}
		if !j.silent {
			if n := len(s.appendOut(nil, j)); n > replyOverhead+replySizeLong {
				t.Fatalf("answer of %d bytes", n)
			}
		}
	})
}

// TestManyUpdatesAtOnce: updates that are done together all count, even if there are more than one
// report to the clearinghouse holds.
func TestManyUpdatesAtOnce(t *testing.T) {
	s := &Server{Clearinghouse: new(prototest.House)}
	s.prepare()
	random := rand.New(rand.NewPCG(8, 9))
	var jobs []*job
	for i := range maxUpdates {
		j := &job{client: netip.MustParseAddrPort("127.0.0.1:5"), req: Request{
			Version: 4, Command: Write, Flag: 1, Value: int32(1 + i%3), Digest: digestOf(byte(i)), Shingled: true,
			Tag: uint32(i),
		}}
		for k := range j.req.Shingles {
			j.req.Shingles[k] = random.Uint64()
		}
		s.recognise(j)
		jobs = append(jobs, j)
	}
	s.updateAll(t.Context(), jobs)
	for i, j := range jobs {
		if j.err != nil || !j.reply.OK() {
			t.Fatalf("update %d: %+v, %v", i, j.reply, j.err)
		}
		near := &job{req: j.req}
		near.req.Command, near.req.Digest = Check, [DigestSize]byte{}
		for _, check := range []*job{{req: j.req}, near} {
			check.req.Command = Check
			s.check(t.Context(), &scratch{checks: []pendingCheck{{job: check}}})
			if !check.reply.OK() || check.reply.Value != j.req.Value {
				t.Errorf("update %d of value %d: %+v", i, j.req.Value, check.reply)
			}
		}
	}
}
