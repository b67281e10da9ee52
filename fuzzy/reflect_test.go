package fuzzy

import (
	"net/netip"
	"testing"

	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestReflection checks for every command and version, again and again, that an address on another
// machine is sent at most 1.5 times the bytes that came from it, and that a client that asks again is
// answered.
func TestReflection(t *testing.T) {
	for version := range byte(6) {
		for _, long := range []bool{false, true} {
			for _, command := range []Command{Check, Write, Delete, Stat, Ping} {
				s := &Server{Clearinghouse: new(prototest.House)}
				s.prepare()
				stranger := netip.MustParseAddrPort("198.51.100.7:99")
				sent, got, answers := 0, 0, 0
				for range 20 {
					r := Request{Version: version, LongForm: long, Command: command, Flag: 1, Tag: 7}
					p := &door.Packet{Data: r.Append(nil), Client: stranger}
					s.packets(t.Context(), []*door.Packet{p})
					sent += len(p.Data)
					got += len(p.Reply)
					if len(p.Reply) > 0 {
						answers++
					}
					if door.Amplifies(sent, got) {
						t.Fatalf("version %d, long %v, command %d: %d bytes for %d", version, long, command, got, sent)
					}
				}
				if version >= 3 && answers < 15 {
					t.Errorf("version %d, long %v, command %d: %d of 20 answered", version, long, command, answers)
				}
			}
		}
	}
}
