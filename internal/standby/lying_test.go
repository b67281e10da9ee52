package standby

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// frame returns the bytes of a frame that states a length.
func frame(kind byte, length uint32, content []byte) []byte {
	return append(binary.LittleEndian.AppendUint32([]byte{kind}, length), content...)
}

// whole returns the bytes of a frame.
func whole(kind byte, content []byte) []byte { return frame(kind, uint32(len(content)), content) }

func asJSON(t *testing.T, kind byte, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return whole(kind, text)
}

func newTestKey(t *testing.T) *Key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	k, err := newKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// heap returns the bytes of memory in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestLyingFirst has a first node send everything that it must not: wrong lengths, kinds and indexes, gaps, entries
// of another pair, older and absurd terms, files outside of the data folder, copies that are none. The second node
// keeps what it had, and follows an honest first node afterwards.
func TestLyingFirst(t *testing.T) {
	a, b := pairUp(t)
	for n := range uint64(5) {
		a.acknowledged(n + 1)
	}
	await.True(t, "a copy of the numbers", func() bool { return follows(a, b) })
	before := b.numbers()
	source, last := b.follow.state.Source, b.store.LastIndex()
	entry := func(index uint64) []byte {
		return appendEntries(nil, []store.Entry{{Index: index, Data: binary.BigEndian.AppendUint64(nil, 99)}})
	}
	file := func(name string) []byte { return append(append([]byte{byte(len(name))}, name...), "evil"...) }
	honest := welcome{Version: wireVersion, Role: First, Term: 3, Last: last, Incarnation: source}
	with := func(change func(*welcome)) []byte {
		w := honest
		change(&w)
		return asJSON(t, frameWelcome, w)
	}
	hi := with(func(*welcome) {})
	after := func(frames ...[]byte) []byte { return append(bytes.Clone(hi), bytes.Join(frames, nil)...) }
	copying := with(func(w *welcome) { w.Copy, w.Incarnation = true, "another" })
	for name, bytesSent := range map[string][]byte{
		"nothing":                    nil,
		"noise":                      []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"a length above all limits":  frame(frameWelcome, math.MaxUint32, nil),
		"no JSON":                    whole(frameWelcome, []byte("{")),
		"another kind":               asJSON(t, frameHello, honest),
		"an older term":              with(func(w *welcome) { w.Term = 1 }),
		"an absurd term":             with(func(w *welcome) { w.Term = math.MaxUint64 }),
		"another pair's store":       with(func(w *welcome) { w.Incarnation = "another" }),
		"another role":               with(func(w *welcome) { w.Role = "third" }),
		"a long problem":             with(func(w *welcome) { w.Problem = strings.Repeat("x\x1b[31m", 3000) }),
		"a gap":                      after(whole(frameEntries, entry(last+2))),
		"an entry again":             after(whole(frameEntries, entry(last))),
		"an entry at the end":        after(whole(frameEntries, entry(math.MaxUint64))),
		"an entry cut short":         after(whole(frameEntries, entry(last + 1)[:15])),
		"an entry of a wrong length": after(whole(frameEntries, append(entry(last + 1)[:8], 255, 255, 255, 255, 1))),
		"half a frame":               after(frame(frameEntries, 1<<20, entry(last+1))),
		"a frame above the limit":    after(frame(frameEntries, maxFrame+1, nil)),
		"a beat of no index":         after(whole(frameBeat, []byte("123"))),
		"an unknown kind":            after(whole('?', nil)),
		"an acknowledgement":         after(whole(frameAck, make([]byte, 8))),
		"a file outside":             after(whole(frameFile, file("../evil"))),
		"a file without a name":      after(whole(frameFile, nil)),
		"a copy in the middle":       after(whole(frameCopy, []byte("x"))),
		"a copy of noise":            append(bytes.Clone(copying), whole(frameCopy, make([]byte, 1<<20))...),
		"a copy of nothing":          append(bytes.Clone(copying), whole(frameCopied, nil)...),
		"a copy that ends":           append(bytes.Clone(copying), whole(frameCopy, []byte("b"))...),
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := tls.Listen("tcp", "127.0.0.1:0", a.key.config(func(string) bool { return true }))
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			var serving sync.WaitGroup
			serving.Go(func() {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				_, _, _ = (&wire{conn: conn, limit: maxHello}).receive()
				_, _ = conn.Write(bytesSent)
			})
			o := b.options(b.follow.state)
			o.Dir = t.TempDir()
			o.State.Address, o.State.Term = listener.Addr().String(), 2
			o.Paired = func(State) error { return nil }
			f := NewFollower(o, Applier{Entries: b.apply, File: func(context.Context, File) error { return nil }})
			began := heap()
			if err := f.Once(t.Context()); err == nil || errors.Is(err, ErrCopied) {
				t.Errorf("no error: %v", err)
			}
			serving.Wait()
			if now := heap(); now > began+16<<20 {
				t.Errorf("%d bytes of memory, %d before", now, began)
			}
			if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
	if got := b.numbers(); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("numbers %v, before %v", got, before)
	}
	n := a.acknowledged(6)
	await.True(t, "an honest first node is followed", func() bool { return b.numbers()[n] == 1 })
}

// TestLyingSecond has a second node, or a thief with its key, send everything that it must not. The first node
// neither stands down nor takes an entry for confirmed, reports it, and serves the honest second node afterwards.
func TestLyingSecond(t *testing.T) {
	a, b := pairUp(t)
	a.acknowledged(1)
	await.True(t, "a copy", func() bool { return follows(a, b) })
	term, source, last := a.term.Load()[0], b.follow.state.Source, a.store.LastIndex()
	b.close()
	address := a.listener.Addr().String()
	honest := hello{Version: wireVersion, Follow: true, Role: Second, Term: term, Source: source, Last: last}
	with := func(change func(*hello)) []byte {
		h := honest
		change(&h)
		return asJSON(t, frameHello, h)
	}
	hi := with(func(*hello) {})
	for name, bytesSent := range map[string][]byte{
		"noise":                     []byte("GET / HTTP/1.1\r\n\r\n"),
		"a length above all limits": frame(frameHello, math.MaxUint32, nil),
		"a long hello":              whole(frameHello, make([]byte, maxHello+1)),
		"no JSON":                   whole(frameHello, []byte("[]")),
		"another kind":              asJSON(t, frameWelcome, honest),
		"an absurd term":            with(func(h *hello) { h.Term = math.MaxUint64 }),
		"a port that is none":       with(func(h *hello) { h.Port = "80@elsewhere.example" }),
		"a port of 0":               with(func(h *hello) { h.Port = "0" }),
		"an entry that does not exist": append(bytes.Clone(hi),
			whole(frameAck, binary.LittleEndian.AppendUint64(nil, last+1000))...),
		"an index of no index": append(bytes.Clone(hi), whole(frameAck, []byte("12"))...),
		"entries":              append(bytes.Clone(hi), whole(frameEntries, []byte("x"))...),
		"a long frame":         append(bytes.Clone(hi), frame(frameAck, math.MaxUint32, nil)...),
	} {
		t.Run(name, func(t *testing.T) {
			refused := a.door.Refused() + a.lead.Status().Refused
			conn, err := b.key.dial(t.Context(), address, a.key.Public())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			began := heap()
			_, err = conn.Write(bytesSent) // the first node may close it in the middle
			conn.SetReadDeadline(time.Now().Add(await.Patience))
			for err == nil { // until the first node closes it
				_, err = conn.Read(make([]byte, 4096))
			}
			if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
				t.Error("the connection stays open")
			}
			await.True(t, "a refusal that is counted",
				func() bool { return a.door.Refused()+a.lead.Status().Refused > refused })
			if now := heap(); now > began+16<<20 {
				t.Errorf("%d bytes of memory, %d before", now, began)
			}
			if s := a.lead.Status(); s.Copied > last {
				t.Errorf("entry %d counts as copied, the last one is %d", s.Copied, last)
			}
		})
	}
	if a.down.Load() || a.lead.isFenced() {
		t.Error("the first node has stood down")
	}
	if s, err := LoadState(a.dir); err != nil || s.Role != First || s.Peer != b.key.Public() {
		t.Errorf("state %+v, %v", s, err)
	}
	if !strings.Contains(a.log.String(), "has ended") {
		t.Errorf("the log has nothing of it: %s", a.log.String())
	}
	b.open()
	taken(t, a, b)
}

// taken waits until the pair takes numbers, which it does while the second node follows.
func taken(t *testing.T, a, b *machine) {
	t.Helper()
	n := uint64(1000)
	await.True(t, "a number that the pair takes", func() bool {
		n++
		return follows(a, b) && a.decide(n)
	})
}

// TestStrangersAtThePair has strangers hold as many connections as they get, in silence, with keys of their own and
// with guessed invitations. The second node is served all the same, and the log has few lines of them.
func TestStrangersAtThePair(t *testing.T) {
	a, b := pairUp(t)
	before, err := LoadState(a.dir)
	if err != nil {
		t.Fatal(err)
	}
	b.close()
	if _, err := Invite(a.dir, a.wire.Address(), time.Hour); err != nil { // strangers' keys pass the handshake
		t.Fatal(err)
	}
	address, own := a.listener.Addr().String(), before.Peer
	for range 3 * maxStrangers {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	stranger := newTestKey(t)
	for i := range 2 * maxConnections { // through the handshake, then silent
		conn, err := stranger.dial(t.Context(), address, a.key.Public())
		if err != nil {
			t.Fatalf("stranger %d: %v", i, err)
		}
		defer conn.Close()
		if i%2 == 0 {
			guess := hello{Version: wireVersion, Follow: true, Role: Second, Term: math.MaxInt32, Token: "guess"}
			if _, err := conn.Write(asJSON(t, frameHello, guess)); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.open()
	taken(t, a, b)
	await.True(t, "refusals that are counted", func() bool { return a.door.Refused() >= maxStrangers })
	if n := strings.Count(a.log.String(), "known=false"); n > 2 {
		t.Errorf("%d lines of the log about strangers", n)
	}
	after, err := LoadState(a.dir)
	if err != nil || after.Peer != own || after.Role != First || !invited(a.dir) {
		t.Errorf("state %+v, %v", after, err)
	}
}

// TestWrongCertificates checks that a stranger without an invitation, a first node with another key, and a
// certificate of another kind of key get nothing.
func TestWrongCertificates(t *testing.T) {
	a, b := pairUp(t)
	stranger := newTestKey(t)
	conn, err := stranger.dial(t.Context(), a.listener.Addr().String(), a.key.Public())
	if err == nil { // in TLS 1.3 the client learns of a refusal when it reads
		_, err = conn.Read(make([]byte, 1))
		conn.Close()
	}
	if err == nil {
		t.Error("a stranger is served")
	}
	if _, err := b.key.dial(t.Context(), a.listener.Addr().String(), stranger.Public()); err == nil {
		t.Error("a node with another key is taken for the first one")
	}
	plain := tls.Client(dialPlain(t, a), &tls.Config{InsecureSkipVerify: true})
	err = plain.HandshakeContext(t.Context())
	if err == nil {
		_, err = plain.Read(make([]byte, 1))
	}
	if err == nil {
		t.Error("a client without a certificate is served")
	}
	await.True(t, "refusals that are counted", func() bool { return a.door.Refused() >= 2 })
	a.acknowledged(1)
}

func dialPlain(t *testing.T, a *machine) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", a.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestLyingInvitations checks what a code of an invitation, which comes by mail, may hold.
func TestLyingInvitations(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "second")
	for _, c := range []Code{
		{Address: "first.example:1", Key: "00", Token: "t"},
		{Address: "first.example", Key: strings.Repeat("0", 64), Token: "t"},
		{Address: "first.example:1", Key: strings.Repeat("0", 64)},
		{Address: strings.Repeat("a", 2*maxHello) + ":1", Key: strings.Repeat("0", 64), Token: "t"},
	} {
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Join(dir, codePrefix+base64.RawURLEncoding.EncodeToString(text)); err == nil {
			t.Errorf("%.80s is taken", text)
		}
		if _, err := os.Stat(filepath.Join(dir, Folder)); err == nil {
			t.Errorf("%.80s has left files", text)
		}
	}
}
