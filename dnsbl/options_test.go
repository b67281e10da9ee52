package dnsbl

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// option returns an option of an OPT record.
func option(code uint16, data string) []byte {
	b := binary.BigEndian.AppendUint16(nil, code)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(data))), data...)
}

// TestOptions: of the options of a query the first cookie counts, and the others are ignored.
func TestOptions(t *testing.T) {
	s := newServer(t)
	ask := question(dnsmessage.ClassINET, dnsmessage.TypeA, "evil", "example", "bl", "example", "com")
	nsid, cookie, short := option(3, ""), option(cookieOption, "client 1"), option(cookieOption, "short")
	for _, tt := range []struct {
		name    string
		options []byte
		want    dnsmessage.RCode
		cookie  bool
	}{
		{"none", nil, 0, false},
		{"another one", nsid, 0, false},
		{"another one of some bytes", option(15, "x"), 0, false},
		{"a cookie", cookie, 0, true},
		{"another one before a cookie", slices.Concat(nsid, cookie), 0, true},
		{"a cookie before another one", slices.Concat(cookie, nsid), 0, true},
		{"two cookies", slices.Concat(cookie, option(cookieOption, "client 2")), 0, true},
		{"a malformed cookie after a good one", slices.Concat(cookie, short), 0, true},
		{"a malformed cookie", short, dnsmessage.RCodeFormatError, false},
		{"a malformed cookie before a good one", slices.Concat(short, cookie), dnsmessage.RCodeFormatError, false},
		{"half a head", nsid[:3], dnsmessage.RCodeFormatError, false},
		{"half a cookie", cookie[:9], dnsmessage.RCodeFormatError, false},
	} {
		opt := binary.BigEndian.AppendUint16([]byte(anOPT[:9]), uint16(len(tt.options)))
		m, got := cookieOf(t, s.answer(nil, withRecords(ask, string(append(opt, tt.options...))), local, maxUDP))
		if m.RCode != tt.want || len(got) > 0 != tt.cookie || tt.cookie && string(got[:8]) != "client 1" ||
			(len(m.Answers) == 1) != (tt.want == 0) {
			t.Errorf("%s: %v with %d answers, cookie %q; want %v, a cookie %v", tt.name, m.RCode, len(m.Answers), got, tt.want,
				tt.cookie)
		}
	}
}

// TestNegative: the answer that there is no such name has an SOA record with whole names, as long as
// it fits.
func TestNegative(t *testing.T) {
	s := &Server{Zones: []Zone{{Name: "bl.example", Form: Domains, Host: "ns.bl.example",
		List: set{names: map[string]bool{}}}}}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	var q query
	for _, labels := range [][]string{{"good", "bl", "example"}, {"x", "good", "bl", "example"}, {"ns", "bl", "example"}} {
		if !q.parse(question(dnsmessage.ClassINET, dnsmessage.TypeA, labels...)) {
			t.Fatal("not a query")
		}
		r := &reply{code: dnsmessage.RCodeNameError, authoritative: true, zone: (*s.zones.Load())[0],
			kind: dnsmessage.TypeSOA, negative: true}
		whole := len(q.answer(nil, r, maxUDP))
		for limit, authorities := range map[int]int{whole - 1: 0, whole: 1, whole + 1: 1} {
			var m dnsmessage.Message
			before := []byte{1, 2} // as the length over TCP
			if err := m.Unpack(q.answer(before, r, limit)[len(before):]); err != nil {
				t.Fatal(err)
			}
			if len(m.Authorities) != authorities || m.Truncated || m.RCode != dnsmessage.RCodeNameError || !m.Authoritative {
				t.Errorf("%v, %d of %d bytes: %+v, want %d authorities", labels, limit, whole, m.Header, authorities)
			}
			for _, a := range m.Authorities {
				soa := a.Body.(*dnsmessage.SOAResource)
				if a.Header.Name.String() != "bl.example." || soa.NS.String() != "ns.bl.example." ||
					soa.MBox.String() != "hostmaster.bl.example." {
					t.Errorf("%v: %v: %+v", labels, a.Header.Name, soa)
				}
			}
		}
	}
}
