package dcc

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestIPv6: the same dialogue over IPv6, and from a wildcard address of both
// families.
func TestIPv6(t *testing.T) {
	serve := func(t *testing.T, address string) net.Addr {
		return prototest.ServePackets(t, address, 1, goldenServer())
	}
	prototest.EachFamily(t, serve, func(t *testing.T, address string) {
		sums := goldenChecksums(t)[1:2]
		for n, who := range []struct {
			id       uint32
			password string
		}{{goldenClient, goldenPasword}, {AnonymousID, ""}} {
			c := dial(t, address, who.id, who.password)
			got, err := c.Report(t.Context(), 1, false, sums)
			wantTotals(t, "at "+address, got, err, Total{uint32(n + 1), uint32(n)})
		}
	})
}

// nops sends n NOPs at once and returns the number of answers, which should be want.
func nops(t *testing.T, address string, sender uint32, password string, n, want int) (answered int) {
	t.Helper()
	c := dialRaw(t, address)
	for i := range n {
		p := rawPacket(MaxVersion, NOP, sender, [16]byte{0: byte(i), 1: byte(i >> 8)}, nil)
		if password != "" {
			sum := sign(password, p[:len(p)-signatureSize])
			copy(p[len(p)-signatureSize:], sum[:])
		}
		if _, err := c.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	return prototest.Answers(c, want)
}

func TestRates(t *testing.T) {
	few := door.Rate{PerSecond: 1e-6, Burst: 5}
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, tt := range []struct {
		name                   string
		set                    func(*Server)
		wantAnonymous, wantOwn int // of 20
	}{
		{"none", func(*Server) {}, 20, 20},
		{"of one client", func(s *Server) { s.Rate = few }, 5, 5},
		{"of one client, exempt", func(s *Server) { s.Rate, s.Exempt = few, loopback }, 20, 20},
		{"of one anonymous client", func(s *Server) { s.AnonymousRate = few }, 5, 20},
		{"of one anonymous client, exempt", func(s *Server) { s.AnonymousRate, s.Exempt = few, loopback }, 20, 20},
		{"of all anonymous clients", func(s *Server) { s.AnonymousTotal = few }, 5, 20},
		{"of all anonymous clients, exempt", func(s *Server) { s.AnonymousTotal, s.Exempt = few, loopback }, 20, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			anonymous, own := goldenServer(), goldenServer()
			tt.set(anonymous)
			tt.set(own)
			if got := nops(t, serve(t, anonymous), AnonymousID, "", 20, tt.wantAnonymous); got != tt.wantAnonymous {
				t.Errorf("%d of 20 anonymous requests answered, want %d", got, tt.wantAnonymous)
			}
			if got := nops(t, serve(t, own), goldenClient, goldenPasword, 20, tt.wantOwn); got != tt.wantOwn {
				t.Errorf("%d of 20 requests of a client answered, want %d", got, tt.wantOwn)
			}
		})
	}
}

// TestNetworks: a blocked client gets no answer, with or without a password. A client that may not
// be anonymous needs a password.
func TestNetworks(t *testing.T) {
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	elsewhere := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	for _, tt := range []struct {
		name                   string
		set                    func(*Server)
		wantAnonymous, wantOwn int
	}{
		{"blocked", func(s *Server) { s.Blocked = loopback }, 0, 0},
		{"others blocked", func(s *Server) { s.Blocked = elsewhere }, 1, 1},
		{"anonymous elsewhere only", func(s *Server) { s.AnonymousFrom = elsewhere }, 0, 1},
		{"anonymous here", func(s *Server) { s.AnonymousFrom = loopback }, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := goldenServer()
			tt.set(s)
			address := serve(t, s)
			if got := nops(t, address, AnonymousID, "", 1, tt.wantAnonymous); got != tt.wantAnonymous {
				t.Errorf("anonymous: %d answers, want %d", got, tt.wantAnonymous)
			}
			if got := nops(t, address, goldenClient, goldenPasword, 1, tt.wantOwn); got != tt.wantOwn {
				t.Errorf("with a password: %d answers, want %d", got, tt.wantOwn)
			}
			if got := nops(t, address, goldenClient, "wrong", 1, tt.wantAnonymous); got != tt.wantAnonymous {
				t.Errorf("with a wrong password: %d answers, want %d", got, tt.wantAnonymous)
			}
		})
	}
}

// signed makes a packet of a client with a password.
func signed(op Op, sender uint32, password string, number byte, body []byte) []byte {
	p := rawPacket(MaxVersion, op, sender, [16]byte{number}, body)
	sum := sign(password, p[:len(p)-signatureSize])
	copy(p[len(p)-signatureSize:], sum[:])
	return p
}

// TestClock: an administrator whose clock is off by more than a minute gets an error that states
// this, and deletes nothing.
func TestClock(t *testing.T) {
	s := goldenServer()
	now := time.Unix(1_800_000_000, 0)
	s.Now = func() time.Time { return now }
	s.Clearinghouse = new(prototest.House)
	address := serve(t, s)
	c := dialRaw(t, address)
	sum := Checksum{Type: digests.TypeBody, Sum: [16]byte{1, 2, 3}}
	client := dial(t, address, AnonymousID, "")
	if _, err := client.Report(t.Context(), 3, false, []Checksum{sum}); err != nil {
		t.Fatal(err)
	}
	for n, tt := range []struct {
		skew int64
		want string // of the text of an ERROR, "" for none
	}{
		{-65, "timestamp off by -65 seconds"}, {65, "timestamp off by 65 seconds"}, {1 << 20, "timestamp off by"}, {64, ""},
		{-64, ""},
	} {
		date := binary.BigEndian.AppendUint32(nil, uint32(now.Unix()+tt.skew))
		check := exchange(t, c, signed(Admin, 101, "serverpass", byte(2*n),
			append(bytes.Clone(date), 0, 0, 0, 0, adminClock, 0, 0, 0)))
		body := append(append(bytes.Clone(date), byte(sum.Type), checksumSize), sum.Sum[:]...)
		deleted := exchange(t, c, signed(Delete, 101, "serverpass", byte(2*n+1),
			append(body, make([]byte, deleteSize-minPacket-len(body))...)))
		for what, got := range map[string][]byte{"clock check": check, "delete": deleted} {
			text := string(got[headerSize : len(got)-signatureSize])
			if tt.want != "" && (Op(got[3]) != Error || !strings.Contains(text, tt.want)) {
				t.Errorf("%s with a clock off by %d: %s %q, want %q", what, tt.skew, Op(got[3]), text, tt.want)
			}
			if tt.want == "" && Op(got[3]) == Error {
				t.Errorf("%s with a clock off by %d: %q", what, tt.skew, text)
			}
		}
		got, err := client.Query(t.Context(), []Checksum{sum})
		want := Total{3, 3}
		if tt.want == "" {
			want = Total{}
		}
		wantTotals(t, "after the delete", got, err, want)
	}
	if err := client.Delete(t.Context(), sum); err == nil {
		t.Error("an anonymous client deletes")
	}
}

// TestAdminOperations: the list of clients is empty. Operations that would change the server are
// refused to all clients.
func TestAdminOperations(t *testing.T) {
	c := dialRaw(t, serve(t, goldenServer()))
	for op := byte(0); op < 20; op++ {
		got := exchange(t, c, signed(Admin, 101, "serverpass", op,
			append(binary.BigEndian.AppendUint32(nil, uint32(time.Now().Unix())), 0, 0, 4, 0, op, 0, 0, 0)))
		want := Error
		switch op {
		case adminStats, adminClientsByAddr, adminClientsByID, adminClock:
			want = Admin
		}
		if Op(got[3]) != want {
			t.Errorf("operation %d: %s, want %s", op, Op(got[3]), want)
		}
		if n := len(got) - minPacket; (op == adminClientsByAddr || op == adminClientsByID) && n != 0 {
			t.Errorf("operation %d: a list of %d bytes", op, n)
		}
	}
}
