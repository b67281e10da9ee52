package dcc

import (
	"bufio"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/internal/ledger"
)

// packetOf returns a packet without a valid signature.
func packetOf(version uint8, op Op, sender uint32, body []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(minPacket+len(body)))
	b = binary.BigEndian.AppendUint32(append(b, version, byte(op)), sender)
	b = append(append(b, "0123456789abcdef"...), body...)
	return append(b, make([]byte, signatureSize)...)
}

// checksumsOf returns the body of a request, a checksum of each type.
func checksumsOf(targets uint32, types ...digests.Type) []byte {
	b := binary.BigEndian.AppendUint32(nil, targets)
	for _, t := range types {
		b = append(b, byte(t), checksumSize)
		b = append(b, fmt.Sprintf("checksum no. %3d", t)...)
	}
	return b
}

// TestPackets: the fields of a packet, at their limits and beyond.
func TestPackets(t *testing.T) {
	all := make([]digests.Type, 0, maxChecksums)
	for n := digests.TypeIP; n <= digests.TypeRepBulk; n++ {
		all = append(all, n)
	}
	one := checksumsOf(1, digests.TypeBody)
	good := packetOf(MaxVersion, Report, MinClientID, one)
	wrongType, wrongSize := slices.Clone(one), slices.Clone(one)
	wrongType[4], wrongSize[5] = 0, checksumSize-1
	date := make([]byte, 4)
	for name, tt := range map[string]struct {
		raw []byte
		ok  bool
	}{
		"a report": {good, true}, "a byte less": {good[:len(good)-1], false},
		"a byte more": {append(slices.Clone(good), 0), false},
		"nothing":     {nil, false}, "less than a header": {good[:minPacket-1], false},
		"the first version":        {packetOf(MinVersion, Report, AnonymousID, one), true},
		"one before it":            {packetOf(MinVersion-1, Report, AnonymousID, one), false},
		"one after the last":       {packetOf(MaxVersion+1, Report, AnonymousID, one), false},
		"a NOP":                    {packetOf(maxNOPVersion, NOP, AnonymousID, nil), true},
		"a NOP of a later version": {packetOf(maxNOPVersion+1, NOP, AnonymousID, nil), false},
		"a NOP of an early one":    {packetOf(MinVersion-1, NOP, AnonymousID, nil), false},
		"a NOP with a body":        {packetOf(8, NOP, AnonymousID, []byte{0}), false},
		"nobody":                   {packetOf(8, NOP, 0, nil), false}, "after nobody": {packetOf(8, NOP, 2, nil), false},
		"before a server":    {packetOf(8, NOP, MinServerID-1, nil), false},
		"the first server":   {packetOf(8, NOP, MinServerID, nil), true},
		"the last client":    {packetOf(8, NOP, MaxClientID, nil), true},
		"after the last":     {packetOf(8, NOP, MaxClientID+1, nil), false},
		"a query of nothing": {packetOf(8, Query, 1, checksumsOf(0)), true},
		"no targets":         {packetOf(8, Query, 1, []byte{0, 0, 0}), false},
		"half a checksum":    {packetOf(8, Report, 1, one[:len(one)-1]), false},
		"all checksums":      {packetOf(8, Report, 1, checksumsOf(1, all...)), len(all) <= maxChecksums},
		"too many": {packetOf(8, Report, 1,
			append(checksumsOf(1, all...), make([]byte, (maxChecksums+1-len(all))*checksumSize)...)), false},
		"one type twice":     {packetOf(8, Report, 1, checksumsOf(1, digests.TypeBody, digests.TypeBody)), false},
		"types out of order": {packetOf(8, Report, 1, checksumsOf(1, digests.TypeFuz1, digests.TypeBody)), false},
		"types in order":     {packetOf(8, Report, 1, checksumsOf(1, digests.TypeBody, digests.TypeFuz1)), true},
		"a type of none":     {packetOf(8, Report, 1, wrongType), false},
		"the last type":      {packetOf(8, Report, 1, checksumsOf(1, digests.TypeRepBulk)), true},
		"one after it":       {packetOf(8, Report, 1, checksumsOf(1, digests.TypeRepBulk+1)), false},
		"another length":     {packetOf(8, Report, 1, wrongSize), false},
		"the most targets":   {packetOf(8, Report, 1, checksumsOf(maxTargets, digests.TypeBody)), true},
		"one more":           {packetOf(8, Report, 1, checksumsOf(maxTargets+1, digests.TypeBody)), false},
		"of a query":         {packetOf(8, Query, 1, checksumsOf(maxTargets+1, digests.TypeBody)), true},
		"many":               {packetOf(8, Report, 1, checksumsOf(Many, digests.TypeBody)), true},
		"white":              {packetOf(8, Report, 1, checksumsOf(White, digests.TypeBody)), false},
		"a flag of none":     {packetOf(8, Report, 1, checksumsOf(0x04000001, digests.TypeBody)), false},
		"an ADMN":            {packetOf(8, Admin, 1, make([]byte, adminSize)), true},
		"a short one":        {packetOf(8, Admin, 1, make([]byte, adminSize-1)), false},
		"a long one":         {packetOf(8, Admin, 1, make([]byte, adminSize+maxAdminText)), true},
		"a longer one":       {packetOf(8, Admin, 1, make([]byte, adminSize+maxAdminText+1)), false},
		"a DELETE": {packetOf(8, Delete, 1,
			append(append(date, checksumsOf(0, digests.TypeBody)[4:]...), 0, 0)), true},
		"a short DELETE":             {packetOf(8, Delete, 1, append(date, checksumsOf(0, digests.TypeBody)[4:]...)), false},
		"a DELETE of a type of none": {packetOf(8, Delete, 1, append(append(date, wrongType[4:]...), 0, 0)), false},
		"an answer":                  {packetOf(8, Answer, 1, one), false}, "no operation": {packetOf(8, 0, 1, nil), false},
		"after the last operation": {packetOf(8, GreyWhite+1, 1, nil), false},
	} {
		var p packet
		if err := p.parse(tt.raw); (err == nil) != tt.ok || err != nil && !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var p packet
	if err := p.parse(good); err != nil || p.version != MaxVersion || p.op != Report || p.sender != MinClientID ||
		string(p.id[:]) != "0123456789abcdef" || p.n != 1 || p.checksums[0].Type != digests.TypeBody ||
		string(p.checksums[0].Sum[:]) != fmt.Sprintf("checksum no. %3d", digests.TypeBody) {
		t.Errorf("read as %+v, %v", p, err)
	}
	for v, want := range map[uint32]packet{
		0: {none: true}, 1: {targets: 1}, maxTargets: {targets: maxTargets}, Many: {targets: 1, spam: true},
		targetsSpam: {targets: 1, spam: true}, targetsSpam | 7: {targets: 7, spam: true},
		targetsRep: {targets: 1, spam: true, byRep: true}, targetsRep | 1: {targets: 1, spam: true, byRep: true},
		targetsRep | targetsSpam | 2: {targets: 2, spam: true},
	} {
		got := packet{op: Report, targets: 99, spam: true, byRep: true, none: true}
		want.op = Report
		if err := got.parseTargets(v); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("targets %#x: %d, spam %v, by reputation %v, none %v, %v", v, got.targets, got.spam, got.byRep, got.none,
				err)
		}
		got = packet{op: Query, spam: true, byRep: true, none: true}
		if err := got.parseTargets(v); err != nil || got.spam || got.byRep || got.none || got.targets != v&targetsMask {
			t.Errorf("a query of %#x: %+v, %v", v, got, err)
		}
	}
	for op, want := range map[Op]string{0: "unknown", NOP: "NOP", OK: "OK", GreyWhite: "GREY_WHITE",
		GreyWhite + 1: "unknown", 255: "unknown"} {
		if op.String() != want {
			t.Errorf("operation %d is %s", op, op)
		}
	}
}

// TestAnswers compares each answer with its layout: the length, a header with the
// request's id, and a signature by the password, by the id for old clients, or none.
func TestAnswers(t *testing.T) {
	id := [16]byte([]byte("0123456789abcdef"))
	for _, a := range []answerer{{version: 4, id: id}, {version: 5, id: id}, {version: 6, id: id}, {version: 8, id: id},
		{version: 9, id: id}, {version: 12, id: id, password: "secret"}, {version: 7, id: id, password: "secret"},
		{version: 30, id: id}, {version: 2, id: id}} {
		totals := []Total{{1, 2}, {Many, NoValue}}
		for op, make := range map[Op]func(dst []byte) []byte{
			OK: func(dst []byte) []byte { return a.ok(dst, 7, strings.Repeat("b", 99)) }, Error: func(dst []byte) []byte {
				return a.error(dst, 7, strings.Repeat("e", 200))
			},
			Answer: func(dst []byte) []byte { return a.answer(dst, 7, totals) },
		} {
			dst := make([]byte("before"))
			b := dst[6:]
			if string(dst[:6]) != "before" || int(binary.BigEndian.Uint16(b)) != len(b) || b[2] != min(a.version, MaxVersion) ||
				Op(b[3]) != op || binary.BigEndian.Uint32(b[4:]) != 7 || string(b[8:24]) != string(id[:]) {
				t.Errorf("version %d, %s: header %x", a.version, op, b[:24])
			}
			unsigned, sum := b[:len(b)-16], [16]byte(b[len(b)-16:])
			want := [16]byte{}
			switch {
			case a.password != "":
				want = sign(a.password, unsigned)
				if !signedBy(b, "secret") || signedBy(b, "secres") {
					t.Errorf("version %d, %s: not signed by its password", a.version, op)
				}
			case a.version <= 8:
				want = md5.Sum(append(id[:], unsigned...))
			}
			if sum != want {
				t.Errorf("version %d, %s: signed %x, want %x", a.version, op, sum, want)
			}
			body := unsigned[24:]
			var wantBody []byte
			switch op {
			case OK:
				wantBody = append([]byte{min(max(a.version, 4), 12), 0, 0, 0}, append([]byte(strings.Repeat("b", 63)), 0)...)
			case Error:
				wantBody = append([]byte(strings.Repeat("e", 127)), 0)
			default:
				for _, n := range totals {
					wantBody = binary.BigEndian.AppendUint32(wantBody, n.Current)
					if a.version > 5 {
						wantBody = binary.BigEndian.AppendUint32(wantBody, n.Previous)
					}
				}
			}
			if string(body) != string(wantBody) {
				t.Errorf("version %d, %s: body %x, want %x", a.version, op, body, wantBody)
			}
		}
	}
	a := answerer{version: 9}
	if b := a.error(nil, 1, "short"); string(b[24:len(b)-16]) != "short\x00" {
		t.Errorf("a short text: %q", b[24:len(b)-16])
	}
}

// TestInsertHeader: the header is inserted after the others, with their line ends, and replaces
// headers of the same brand.
func TestInsertHeader(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"A: 1\n\nbody\n", "A: 1\nX: 1\n\t2\n\nbody\n"},
		{"A: 1\r\n\r\nbody\n", "A: 1\r\nX: 1\r\n\t2\r\n\r\nbody\n"},
		{"A: 1", "A: 1\nX: 1\n\t2\n"}, {"", "X: 1\n\t2\n"}, {"\nbody", "X: 1\n\t2\n\nbody"},
		{"A: 1\n\r\nbody", "A: 1\nX: 1\n\t2\n\r\nbody"},
		{"x-dcc-Br-Metrics: a\n\tb\n c\nA: 1\n\n", "A: 1\nX: 1\n\t2\n\n"},
		{"X-DCC-Br-Metrics: a\nX-DCC-Br-Metrics: b\n\nX-DCC-Br-Metrics: c\n", "X: 1\n\t2\n\nX-DCC-Br-Metrics: c\n"},
		{"X-DCC-Br2-Metrics: a\nX-DCC-Br-Metric: a\n\n", "X-DCC-Br2-Metrics: a\nX-DCC-Br-Metric: a\nX: 1\n\t2\n\n"},
		{"A: x-dcc-br-metrics:\n x-dcc-br-metrics:\nX-DCC-br-Metrics:",
			"A: x-dcc-br-metrics:\n x-dcc-br-metrics:\nX: 1\n\t2\n"},
		{"X-DCC-br-Metrics", "X-DCC-br-Metrics\nX: 1\n\t2\n"},
	} {
		if got := string(insertHeader([]byte(tt.in), "bR", "X: 1\n\t2\n")); got != tt.want {
			t.Errorf("into %q: %q, want %q", tt.in, got, tt.want)
		}
	}
}

// TestFolded: lines have at most 78 columns, with a tab counted as eight, unless a single word is
// longer.
func TestFolded(t *testing.T) {
	word := func(n int) string { return strings.Repeat("w", n) }
	for _, tt := range []struct {
		words []string
		want  string
	}{
		{nil, "\n"}, {[]string{"a"}, "a\n"}, {[]string{"a", "b"}, "a b\n"},
		{[]string{word(40), word(37)}, word(40) + " " + word(37) + "\n"},
		{[]string{word(40), word(38)}, word(40) + "\n\t" + word(38) + "\n"}, {[]string{word(90), "a"}, word(90) + "\n\ta\n"},
		{[]string{word(78), word(60), word(9)}, word(78) + "\n\t" + word(60) + " " + word(9) + "\n"},
		{[]string{word(78), word(60), word(10)}, word(78) + "\n\t" + word(60) + "\n\t" + word(10) + "\n"},
		{[]string{word(70), "abc", "defg"}, word(70) + " abc\n\tdefg\n"},
		{[]string{word(70), "abc", "def"}, word(70) + " abc def\n"},
	} {
		if got := fold(tt.words); got != tt.want {
			t.Errorf("%d words: %q, want %q", len(tt.words), got, tt.want)
		}
	}
	for reason, want := range map[string]string{
		"": "", "  ": "", "a": "(a)", "a b": "(a b)", "a=b; (c) \\ \"d\"": "(a b c d)", "\x7f\x00ä~!": "(~!)", "x\n": "(x)",
		strings.Repeat("a", maxReason): "(" + strings.Repeat("a", maxReason) + ")", strings.Repeat("a", maxReason+1): "(" +
			strings.Repeat("a", maxReason) + ")",
	} {
		if got := strings.Join(comment(reason), " "); got != want {
			t.Errorf("reason %q: %q, want %q", reason, got, want)
		}
	}
}

// TestMetrics: the totals in the header, and the value for a missing body.
func TestMetrics(t *testing.T) {
	sum := func(kind digests.Type, n uint32) countedSum {
		return countedSum{Sum: digests.Sum{Type: kind}, total: Total{Current: n}}
	}
	body, fuz1, fuz2, ip := sum(digests.TypeBody, 3), sum(digests.TypeFuz1, Many), sum(digests.TypeFuz2,
		0), sum(digests.TypeIP, 0)
	from := sum(digests.TypeFrom, 4)
	for want, m := range map[string]metrics{
		"X-DCC-b-Metrics: h 7; Body=3":                       {sums: []countedSum{body}},
		"X-DCC-b-Metrics: h 7; bulk Body=3 Fuz1=many Fuz2=0": {bulk: true, sums: []countedSum{body, fuz1, fuz2}},
		"X-DCC-b-Metrics: h 7; Body=many":                    {black: true, sums: []countedSum{body}},
		"X-DCC-b-Metrics: h 7; bulk Body=many (a b)": {bulk: true, listed: true,
			reason: "a b", sums: []countedSum{ip, body}},
		"X-DCC-b-Metrics: h 7; From=4 Body=0 Fuz1=many Fuz2=0": {sums: []countedSum{ip, from, fuz1, fuz2}},
		"X-DCC-b-Metrics: h 7; Body=many Fuz2=0":               {listed: true, sums: []countedSum{fuz2}},
		"X-DCC-b-Metrics: h 7; Body=0":                         {},
		"X-DCC-b-Metrics: h 7; From=4 Body=many":               {black: true, sums: []countedSum{from}},
		"X-DCC--Metrics: h; whitelist":                         {white: true, bulk: true, sums: []countedSum{body}},
	} {
		m.host, m.serverID, m.brand = "h", 7, "b"
		if got := m.header(); got != want+"\n" {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for n, want := range map[uint32]string{0: "0", 7: "7", Many: "many", Many - 1: "16777199", White: "16777201"} {
		if got := count(n); got != want {
			t.Errorf("%d is shown as %s", n, got)
		}
	}
	kept := body
	kept.kept, kept.total.Previous = true, 12
	limited := kept
	limited.threshold = 5
	for _, tt := range []struct {
		sums []countedSum
		want []string
	}{
		{[]countedSum{body, kept}, []string{"checksum  server\n", "00000000\n", "      12\n"}},
		{[]countedSum{body, limited, kept}, []string{"checksum  server thold\n", "00000000\n",
			"      12     5\n", "      12\n"}},
	} {
		m := metrics{sums: tt.sums}
		lines := strings.SplitAfter(m.table("many"), "\n")
		if len(lines) != len(tt.want)+1 || !strings.Contains(lines[0], "reported: many ") {
			t.Errorf("%d lines: %q", len(lines), lines)
			continue
		}
		for i, want := range tt.want {
			if !strings.HasSuffix(lines[i], want) {
				t.Errorf("line %d is %q, want it to end with %q", i, lines[i], want)
			}
		}
	}
}

// TestIfdLines: a line has a limit, its end included, and an unfinished line is not a line.
func TestIfdLines(t *testing.T) {
	long := strings.Repeat("x", maxIfdLine-1)
	for _, tt := range []struct {
		in, want string
		ok       bool
	}{
		{"a\nb", "a", true}, {"\n", "", true}, {"a\r\r\n", "a", true}, {"a\rb\r\n", "a\rb", true}, {"a", "", false},
		{"", "", false}, {long + "\n", long, true}, {long + "x\n", "", false}, {long + "xx\n", "", false},
	} {
		got, err := readIfdLine(bufio.NewReaderSize(strings.NewReader(tt.in), 2*maxIfdLine))
		if got != tt.want || (err == nil) != tt.ok || err != nil && !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%d bytes: %d, %v", len(tt.in), len(got), err)
		}
	}
	broken := errors.New("broken")
	if _, err := readIfdLine(bufio.NewReader(io.MultiReader(strings.NewReader("a"), breaking{broken}))); err == nil ||
		errors.Is(err, bulkhead.ErrMalformed) || !errors.Is(err, broken) {
		t.Errorf("a connection that breaks: %v", err)
	}
	if _, err := readIfdLine(bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", 9000)),
		maxIfdLine)); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("a full buffer: %v", err)
	}
	for word, want := range map[string]ifdOptions{
		"": {}, "header": {header: true}, "CKSUMS": {cksums: true}, "body": {body: true}, "spam": {spam: true},
		"query": {query: true}, "spam query": {query: true}, "query spam": {query: true}, "log": {log: true},
		"grey-off": {greyOff: true}, "no-grey": {greyOff: true}, "grey-query": {greyQuery: true},
		"no-reject": {noReject: true}, "rcvd-next rcvd-nxt rcvd-next": {skip: 3}, " body  log ": {body: true, log: true},
	} {
		var got ifdOptions
		if err := got.parse(word); err != nil || got != want {
			t.Errorf("%q: %+v, %v", word, got, err)
		}
	}
	if err := new(ifdOptions).parse("body bodies"); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("an option that is none: %v", err)
	}
	read := func(lines ...string) (*ifdRequest, error) {
		return readIfdRequest(bufio.NewReaderSize(strings.NewReader(strings.Join(lines, "\n")+"\n"), 2*maxIfdLine))
	}
	q, err := read("header", " ::ffff:192.0.2.1 \rhost", "helo", "from@x", "a@x\ruser", "b@x", "", "body")
	want := &ifdRequest{options: ifdOptions{header: true}, client: netip.MustParseAddr("192.0.2.1"), clientName: "host",
		helo: "helo", sender: "from@x", recipients: []ifdRecipient{{"a@x", "user"}, {"b@x", ""}}}
	if err != nil || !reflect.DeepEqual(q, want) {
		t.Errorf("%+v, %v", q, err)
	}
	for _, none := range []string{"", " ", "0.0.0.0", "::", "\rhost"} {
		if q, err := read("header", none, "", "", ""); err != nil || q.client.IsValid() {
			t.Errorf("client %q: %+v, %v", none, q, err)
		}
	}
	for _, lines := range [][]string{{"header"}, {"header", "1.2.3.4", "", ""}, {"header", "1.2.3", "", "", ""},
		{"other", "", "", "", ""}, {"header", "", "", "", "a@x"}} {
		if q, err := read(lines...); !errors.Is(err, bulkhead.ErrMalformed) || q != nil {
			t.Errorf("%q: %+v, %v", lines, q, err)
		}
	}
	head := []string{"header", "", "", ""}
	if q, err := read(append(append(slices.Clone(head), slices.Repeat([]string{"a@x"}, maxIfdRecipients)...),
		"")...); err != nil || len(q.recipients) != maxIfdRecipients {
		t.Errorf("the most recipients: %v", err)
	}
	if _, err := read(append(append(slices.Clone(head), slices.Repeat([]string{"a@x"}, maxIfdRecipients+1)...),
		"")...); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("one more: %v", err)
	}
}

type breaking struct{ err error }

func (f breaking) Read([]byte) (int, error) { return 0, f.err }

// TestReceivedHeaders: Received headers, including folded ones, are read up to the end of the
// headers and up to a maximum number.
func TestReceivedHeaders(t *testing.T) {
	const line = "Received: from a ([192.0.2.1]) by b\n"
	for _, tt := range []struct {
		message string
		want    []string // HELO and address
	}{
		{"", nil}, {"\n" + line, nil}, {line, []string{"a 192.0.2.1"}},
		{strings.TrimSuffix(line, "\n"), []string{"a 192.0.2.1"}}, {line + "\n" + line, []string{"a 192.0.2.1"}},
		{line + "\r\n" + line, []string{"a 192.0.2.1"}},
		{"RECEIVED : from a\n\t([IPv6:2001:db8::1%eth0])\n\tby b\nX: from c [192.0.2.3]\n" + line,
			[]string{"a 2001:db8::1", "a 192.0.2.1"}},
		{"Received: from [x] [192.0.2.300] [::ffff:192.0.2.2] by b [192.0.2.3]\n", []string{"x 192.0.2.2"}},
		{"Received: from (x) by b [192.0.2.3]\n", []string{"x invalid IP"}},
		{"Received: from x [192.0.2.3\n", []string{"x invalid IP"}},
		{"Received: from x [ipv6:] [192.0.2.4]\n", []string{"x 192.0.2.4"}},
		{"Received: from\n", []string{" invalid IP"}}, {"Received: by b\n", []string{" invalid IP"}},
		{"Received: FROM x\n", []string{"x invalid IP"}}, {"Received from x\n", nil},
		{"Received: from x\n [192.0.2.5]\n", []string{"x 192.0.2.5"}},
	} {
		var got []string
		for _, r := range receivedOf([]byte(tt.message)) {
			got = append(got, r.helo+" "+r.addr.String())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.message, got, tt.want)
		}
	}
	for n, want := range map[int]int{63: 63, 64: 64, 65: 64, 200: 64} {
		if got := receivedOf([]byte(strings.Repeat(line, n) + "\n")); len(got) != want {
			t.Errorf("%d of %d are read", len(got), n)
		}
	}
}

// TestListVerdicts: one "ok" entry, or two "half" entries, make a message white, and a white
// message is not black.
func TestListVerdicts(t *testing.T) {
	for _, tt := range []struct {
		values       []uint32
		white, black bool
	}{
		{nil, false, false}, {[]uint32{5}, false, false}, {[]uint32{White}, true, false}, {[]uint32{White2}, false, false},
		{[]uint32{White2, White2}, true, false}, {[]uint32{Many}, false, true},
		{[]uint32{Many, White}, true, false}, {[]uint32{Many, White2}, false, true},
		{[]uint32{Many, White2, White2}, true, false},
	} {
		var v listVerdict
		for _, n := range tt.values {
			v = v.with(n, true).with(White, false).with(Many, false)
		}
		if v.isWhite() != tt.white || v.isBlack() != tt.black || v.decided() != (tt.white || tt.black) {
			t.Errorf("%x: %+v", tt.values, v)
		}
	}
	yes, no := true, false
	shared := map[digests.Type]uint32{digests.TypeBody: 1, digests.TypeFuz1: 2}
	f := recipientFate{thresholds: shared}
	f.apply(&WhiteOptions{})
	if f.disabled || f.noGrey || f.trap || len(f.thresholds) != 2 {
		t.Errorf("no options: %+v", f)
	}
	f.apply(&WhiteOptions{DCC: &no, Grey: &no, Trap: &yes,
		Thresholds: map[digests.Type]uint32{digests.TypeFuz1: 9, digests.TypeFuz2: 3}})
	if !f.disabled || !f.noGrey || !f.trap || !reflect.DeepEqual(f.thresholds, map[digests.Type]uint32{digests.TypeBody: 1,
		digests.TypeFuz1: 9, digests.TypeFuz2: 3}) || len(shared) != 2 || shared[digests.TypeFuz1] != 2 {
		t.Errorf("options: %+v; those of others are %v", f, shared)
	}
	f.apply(&WhiteOptions{DCC: &yes, Grey: &yes, Trap: &no})
	if f.disabled || f.noGrey || f.trap {
		t.Errorf("taken back: %+v", f)
	}
}

// TestGathered: waiting reports are counted together, up to a maximum number.
func TestGathered(t *testing.T) {
	s := &Server{}
	batch := func(n int) *reportBatch {
		b := new(reportBatch)
		for range n {
			b.items = append(b.items, new(item))
		}
		return b
	}
	work := make(chan *reportBatch, 4)
	work <- batch(maxGroup - 2)
	work <- batch(5)
	work <- batch(7)
	b := batch(1)
	if s.gather(b, work); len(b.items) != maxGroup+4 || len(work) != 1 {
		t.Errorf("%d reports together, %d batches wait", len(b.items), len(work))
	}
	b = batch(1)
	close(work)
	if s.gather(b, work); len(b.items) != 8 {
		t.Errorf("%d reports at the end, want 8", len(b.items))
	}
	if b := batch(maxGroup); true {
		full := make(chan *reportBatch, 1)
		full <- batch(1)
		if s.gather(b, full); len(b.items) != maxGroup || len(full) != 1 {
			t.Errorf("%d reports beside a full batch", len(b.items))
		}
	}
}

// TestAccountNames: each counter of a checksum has its own name, of its type's scheme. All front
// doors know the checksum by the name of its targets' counter.
func TestAccountNames(t *testing.T) {
	c := &Checksum{Type: digests.TypeBody, Sum: [16]byte{1, 2, 3}}
	plain, err := bulkhead.NewSignature(c.Type.Scheme(), c.Sum[:])
	if err != nil || signatureOf(c) != plain {
		t.Errorf("known by %v, want %v, %v", signatureOf(c), plain, err)
	}
	kinds := []ledger.Kind{ledger.Added, ledger.Taken, ledger.Deletes, ledger.AddedSince, ledger.TakenSince}
	for k, names := range map[account][]string{
		targets: {"", "d", "e", "n\x07", "N\x07"}, claims: {"s", "D", "e", "u\x07", "U\x07"},
		claimsAgain: {"t", "T", "e", "v\x07", "V\x07"},
	} {
		for i, name := range names {
			want := bulkhead.MustSignature(c.Type.Scheme(), append(slices.Clone(c.Sum[:]), name...))
			if got := k.of(c, ledger.Part{Kind: kinds[i], Epoch: 7}); got != want {
				t.Errorf("counter %d of %+v is %v, want %v", i, k, got, want)
			}
		}
	}
	b := newBook(nil, []digests.Type{digests.TypeBody, digests.TypeIP})
	for kind := digests.Type(0); kind < 40; kind++ {
		want := kind == digests.TypeBody || kind == digests.TypeIP && digests.TypeIP.Scheme().Valid()
		if b.keeps(kind) != want {
			t.Errorf("type %d is kept: %v", kind, b.keeps(kind))
		}
	}
	b = newBook(nil, nil)
	for kind := digests.Type(0); kind < 40; kind++ {
		if want := kind == digests.TypeBody || kind == digests.TypeFuz1 || kind == digests.TypeFuz2; b.keeps(kind) != want {
			t.Errorf("by default type %d is kept: %v", kind, b.keeps(kind))
		}
	}
}

// TestRecentShards: a request is new once in 32 seconds, or longer if no other request came. A
// request that was abandoned is new again.
func TestRecentShards(t *testing.T) {
	r := new(recent)
	now := time.Unix(1_800_000_000, 0)
	enter := func(k recentKey, after time.Duration, want recentState) {
		t.Helper()
		now = now.Add(after)
		if got := r.enter(k, now); got != want {
			t.Errorf("key %x: state %d, want %d", k, got, want)
		}
	}
	a, b := recentKey(0x104), recentKey(0x204)
	enter(a, 0, recentNew)
	enter(a, 0, recentBusy)
	r.finish(a)
	enter(a, recentTime-1, recentDone)
	enter(b, 1, recentNew) // which begins another table
	enter(a, 0, recentDone)
	r.forget(b)
	enter(b, 0, recentNew)
	r.finish(b)
	enter(a, recentTime-1, recentDone)
	enter(a, 1, recentNew)
	enter(b, 0, recentDone)
	r.finish(a)
	enter(a, 2*recentTime, recentNew)
	enter(b, 0, recentNew)
	if r.shard(1<<58) != &r.shards[1] || r.shard(4) != &r.shards[0] || r.shard(^recentKey(0)) != &r.shards[63] {
		t.Error("keys are not spread by their highest bits")
	}
}
