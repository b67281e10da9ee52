package dcc

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
)

// fakeServer answers each datagram with the result of replies until the test ends, and returns its
// address.
func fakeServer(t *testing.T, replies func(request []byte) [][]byte) string {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { pc.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 2048)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			for _, r := range replies(append([]byte(nil), buf[:n]...)) {
				pc.WriteTo(r, from)
			}
		}
	}()
	return pc.LocalAddr().String()
}

// reply makes the signed answer to a request.
func reply(request []byte, op Op, password string, body []byte) []byte {
	a := append([]byte{0, 0, MaxVersion, byte(op), 0, 0, 0, 101}, request[8:24]...)
	a = append(a, body...)
	binary.BigEndian.PutUint16(a, uint16(len(a)+signatureSize))
	var sum [signatureSize]byte
	if password != "" {
		sum = sign(password, a)
	}
	return append(a, sum[:]...)
}

func TestDialRefuses(t *testing.T) {
	for _, tt := range []struct {
		name     string
		id       uint32
		password string
		ok       bool
	}{
		{"anonymous", AnonymousID, "", true},
		{"lowest server", MinServerID, "x", true},
		{"highest client", MaxClientID, "x", true},
		{"longest password", MinClientID, strings.Repeat("x", MaxPassword), true},
		{"id 0", 0, "", true},
		{"a password without an id", 0, strings.Repeat("x", MaxPassword+1), false},
		{"below the servers", MinServerID - 1, "x", false},
		{"above the clients", MaxClientID + 1, "x", false},
		{"no password", MinClientID, "", false},
		{"password too long", MinClientID, strings.Repeat("x", MaxPassword+1), false},
	} {
		c, err := Dial(t.Context(), "127.0.0.1:6277", &Options{ID: tt.id, Password: tt.password})
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err == nil {
			c.Close()
		}
	}
	if _, err := Dial(t.Context(), "127.0.0.1:nothing", nil); err == nil ||
		!strings.HasPrefix(err.Error(), "dcc: ") {
		t.Errorf("an address that is none: %v", err)
	}
}

// TestClientReads: the client's result for each answer that a server may give.
func TestClientReads(t *testing.T) {
	sums := goldenChecksums(t)[1:3]
	brand := append([]byte{MaxVersion, 0, 0, 0}, append([]byte("Brand"), make([]byte, brandSize-5)...)...)
	full := append([]byte{MaxVersion, 0, 0, 0}, strings.Repeat("b", brandSize)...)
	totals := []byte{0, 0, 0, 7, 0, 0, 0, 5, 0, 255, 255, 240, 1, 0, 0, 0}
	for _, tt := range []struct {
		name string
		op   Op
		body []byte
		want string // of Brand, or "totals"
		err  string // in the error, and "" for none
	}{
		{"brand", OK, brand, "Brand", ""},
		{"longest brand", OK, full, strings.Repeat("b", brandSize), ""},
		{"short OK", OK, brand[:len(brand)-1], "", "malformed"},
		{"long OK", OK, append(brand[:len(brand):len(brand)], 0), "", "malformed"},
		{"another operation", Answer, brand, "", "answer ANSWER, want OK"},
		{"unknown operation", 99, brand, "", "answer unknown, want OK"},
		{"error", Error, []byte("go away\x00"), "", `the server says "go away"`},
		{"error without a text", Error, nil, "", "answer ERROR, want OK"},
		{"totals", Answer, totals, "totals", ""},
		{"too few totals", Answer, totals[:8], "totals", "ANSWER of 8 bytes to 2 checksums"},
		{"too many totals", Answer, append(totals[:len(totals):len(totals)], totals...), "totals",
			"ANSWER of 32 bytes to 2 checksums"},
		{"OK to a query", OK, brand, "totals", "answer OK, want ANSWER"},
		{"error to a query", Error, []byte("no\x00"), "totals", `the server says "no"`},
	} {
		c := dial(t, fakeServer(t, func(request []byte) [][]byte {
			other := reply(request, Error, goldenPasword, []byte("another's\x00"))
			other[19]++ // the number of the request
			sum := sign(goldenPasword, other[:len(other)-signatureSize])
			copy(other[len(other)-signatureSize:], sum[:])
			short := reply(request, Error, goldenPasword, []byte("cut\x00"))
			return [][]byte{
				// none of these is the answer
				{}, short[:minPacket-1], short[:len(short)-1], other, reply(request, Error, "wrong", []byte("forged\x00")),
				reply(request, tt.op, goldenPasword, tt.body),
			}
		}), goldenClient, goldenPasword)
		var got string
		var err error
		if tt.want != "totals" && !strings.Contains(tt.name, "quer") && !strings.Contains(tt.name, "totals") {
			got, err = c.Brand(t.Context())
		} else {
			var all []Total
			if all, err = c.Query(t.Context(), sums); err == nil {
				wantTotals(t, tt.name, all, err, Total{7, 5}, Total{Many, NoValue})
				got = "totals"
			}
		}
		if tt.err == "" && (err != nil || got != tt.want) {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
		}
		if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
		}
	}
}

// TestClientSends: requests are signed and numbered, and a retransmission differs
// from the first by its transmission number alone.
func TestClientSends(t *testing.T) {
	requests := make(chan []byte, 1024)
	var silent atomic.Bool
	silent.Store(true)
	c := dial(t, fakeServer(t, func(request []byte) [][]byte {
		requests <- request
		if silent.CompareAndSwap(true, false) {
			return nil // no answer to the first one
		}
		return [][]byte{reply(request, Answer, goldenPasword, make([]byte, 8))}
	}), goldenClient, goldenPasword)
	sums := goldenChecksums(t)[1:2]
	for n, spam := range []bool{false, true, false} {
		if _, err := c.Report(t.Context(), uint32(n+1), spam, sums); err != nil {
			t.Fatal(err)
		}
	}
	targets := []uint32{1, 2 | targetsSpam, 3}
	var host string
	number, transmission := uint32(0), uint32(0) // of the previous packet
	for len(requests) > 0 {
		p := <-requests
		if !signedBy(p, goldenPasword) || len(p) != minPacket+4+checksumSize || p[1] != byte(len(p)) {
			t.Errorf("request %x", p)
		}
		if host == "" {
			host = string(p[8:16])
		}
		n, at := binary.LittleEndian.Uint32(p[16:]), binary.LittleEndian.Uint32(p[20:])
		if n == number+1 && at == 1 && (n != 2 || transmission >= 2) {
			number = n
		} else if n != number || at != transmission+1 {
			t.Errorf("request %d, transmission %d after %d, %d", n, at, number, transmission)
		}
		transmission = at
		if got := binary.BigEndian.Uint32(p[24:]); n < 1 || n > 3 || got != targets[n-1] || string(p[8:16]) != host {
			t.Errorf("request %d: %#x targets, host %x", n, got, p[8:16])
		}
	}
	if number != 3 {
		t.Errorf("the last request has the number %d, want 3", number)
	}
	// A request that no server would accept is not sent.
	many := make([]Checksum, maxChecksums+1)
	for what, err := range map[string]error{
		"targets":   second(c.Report(t.Context(), maxTargets+1, false, sums)),
		"checksums": second(c.Query(t.Context(), many)),
	} {
		if !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("too many %s: %v", what, err)
		}
	}
	if len(requests) != 0 {
		t.Error("a request beyond the limits is sent")
	}
	// The largest request is sent, but a client does not wait for ever.
	silent.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-requests; cancel() }()
	if _, err := c.Report(ctx, maxTargets, false, many[:maxChecksums]); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

func second(_ []Total, err error) error { return err }

// TestClientDeletes: a DELETE has the size and date that a server requires.
func TestClientDeletes(t *testing.T) {
	requests := make(chan []byte, 8)
	c := dial(t, fakeServer(t, func(request []byte) [][]byte {
		requests <- request
		return [][]byte{reply(request, OK, "secret", nil)}
	}), MinServerID, "secret")
	sum := Checksum{digests.TypeFuz1, [16]byte{1, 2, 3}}
	if err := c.Delete(t.Context(), sum); err != nil {
		t.Fatal(err)
	}
	var p packet
	if err := p.parse(<-requests); err != nil || p.op != Delete || p.sender != MinServerID || p.checksums[0] != sum {
		t.Errorf("%v: %s of %v by %d", err, p.op, p.checksums[0], p.sender)
	}
}
