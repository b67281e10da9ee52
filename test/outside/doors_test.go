package outside_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"example.com/outside"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/dcc"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
	pyzordigest "github.com/bulkhead-mail/bulkhead/digest/pyzor"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
	"github.com/bulkhead-mail/bulkhead/dnsbl"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/fuzzy"
	"github.com/bulkhead-mail/bulkhead/milter"
	"github.com/bulkhead-mail/bulkhead/policy"
	"github.com/bulkhead-mail/bulkhead/pyzor"
	"github.com/bulkhead-mail/bulkhead/razor2"
)

const mail = "From: Ann <ann@example.com>\r\nTo: bob@example.net\r\nSubject: offer\r\n" +
	"Message-ID: <1@example.com>\r\n\r\n" +
	"Dear friend, our bookshelf holds every novel that you could ever want to read.\r\n" +
	"Order today, and a second bookshelf is yours for nothing but the postage.\r\n"

// must ends an example, and with it the test, because of an error.
func must(err error) {
	if err != nil && !errors.Is(err, door.ErrServerClosed) {
		panic(err)
	}
}

// listen opens what the examples serve.
func listen() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	return l
}

func listenPacket() net.PacketConn {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(err)
	return pc
}

// stop shuts a door and waits until it is.
func stop(s interface{ Shutdown(context.Context) error }, served <-chan error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	must(s.Shutdown(ctx))
	fmt.Println(<-served)
}

// ask sends all of a request, and returns the answer.
func ask(l net.Listener, request string) string {
	c, err := net.Dial("tcp", l.Addr().String())
	must(err)
	defer c.Close()
	_, err = io.WriteString(c, request)
	must(err)
	must(c.(*net.TCPConn).CloseWrite())
	answer, err := io.ReadAll(c)
	must(err)
	return string(answer)
}

// users has one user.
type users struct{}

func (users) Secret(_ context.Context, name string) ([]byte, bool, error) {
	return []byte("s3cret"), name == "ann", nil
}

func (users) Register(context.Context, string, []byte, netip.Addr) error { return razor2.ErrTaken }

func Example_razor2() {
	ctx := context.Background()
	house, l := new(outside.House), listen()
	s := &razor2.Server{Clearinghouse: house, Accounts: users{}, Rate: door.Rate{PerSecond: 100, Burst: 200}}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()

	parts, err := razor.Parts(ctx, []byte(mail))
	must(err)
	c, err := razor2.Dial(ctx, l.Addr().String(), nil)
	must(err)
	before, err := c.Check(ctx, parts[0].E4)
	must(err)
	_, err = house.Report(ctx, bulkhead.Report{Signatures: []bulkhead.Signature{parts[0].E4}, Vote: bulkhead.Spam})
	must(err)
	after, err := c.Check(ctx, parts[0].E4)
	must(err)
	must(c.Close())
	fmt.Println(before[0].Spam, after[0].Spam)
	stop(s, served)
	// Output:
	// false true
	// door: server closed
}

func Example_razor2Helper() {
	l := listen()
	h := &razor2.Helper{Clearinghouse: new(outside.House)}
	h.MaxMail = 1 << 20
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	fmt.Println(ask(l, mail))
	stop(h, served)
	// Output:
	// ham
	// door: server closed
}

func Example_pyzor() {
	ctx, pc := context.Background(), listenPacket()
	s := &pyzor.Server{Clearinghouse: new(outside.House)}
	served := make(chan error, 1)
	go func() { served <- s.ServePacket(pc) }()

	sigs, err := pyzordigest.Signatures(ctx, []byte(mail))
	must(err)
	c, err := pyzor.Dial(ctx, pc.LocalAddr().String(), nil)
	must(err)
	_, err = c.Do(ctx, pyzor.OpReport, sigs...)
	must(err)
	reply, err := c.Do(ctx, pyzor.OpCheck, sigs...)
	must(err)
	n, err := reply.Count("Count")
	must(err)
	must(c.Close())
	fmt.Println(n)
	stop(s, served)
	// Output:
	// 1
	// door: server closed
}

func Example_dcc() {
	ctx, pc := context.Background(), listenPacket()
	s := &dcc.Server{Clearinghouse: new(outside.House)}
	served := make(chan error, 1)
	go func() { served <- s.ServePacket(pc) }()

	sums, err := digests.Sums(ctx, []byte(mail), digests.Options{})
	must(err)
	var body []dcc.Checksum
	for _, sum := range sums {
		if sum.Type == digests.TypeBody {
			body = append(body, dcc.Checksum{Type: sum.Type, Sum: sum.Sum})
		}
	}
	c, err := dcc.Dial(ctx, pc.LocalAddr().String(), nil)
	must(err)
	_, err = c.Report(ctx, 3, false, body)
	must(err)
	totals, err := c.Query(ctx, body)
	must(err)
	must(c.Close())
	fmt.Println(totals[0].Current)
	stop(s, served)
	// Output:
	// 3
	// door: server closed
}

func Example_dccifd() {
	l := listen()
	s := &dcc.Ifd{Clearinghouse: new(outside.House), Host: "mx"}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	answer := ask(l, "header\n192.0.2.7\nmail.example.com\nann@example.com\nbob@example.net\n\n"+mail)
	fmt.Println(strings.Split(answer, "\n")[0]) // "A": accept
	stop(s, served)
	// Output:
	// A
	// door: server closed
}

func Example_fuzzy() {
	ctx, pc := context.Background(), listenPacket()
	s := &fuzzy.Server{Clearinghouse: new(outside.House)}
	served := make(chan error, 1)
	go func() { served <- s.ServePacket(pc) }()

	c, err := fuzzy.Dial(ctx, pc.LocalAddr().String(), nil)
	must(err)
	digest := [fuzzy.DigestSize]byte{1, 2, 3}
	must(c.Write(ctx, digest, nil, 1, 10))
	reply, err := c.Check(ctx, digest, nil)
	must(err)
	must(c.Close())
	fmt.Println(reply.OK(), reply.Flag)
	stop(s, served)
	// Output:
	// true 1
	// door: server closed
}

func Example_milter() {
	l := listen()
	s := &milter.Server{Clearinghouse: new(outside.House), Policies: []milter.Policy{{Spam: milter.Reject}}}
	must(s.Prepare())
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	// smtpd_milters = inet:127.0.0.1:8891, and mail flows.
	stop(s, served)
	// Output: door: server closed
}

// patient lets everybody pass.
type patient struct{}

func (patient) Limit(context.Context, func(string) []byte) (action policy.Action, text string, err error) {
	return policy.Dunno, "", nil
}

func Example_policy() {
	l := listen()
	s := &policy.Server{Limiter: patient{}}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	request, err := policy.AppendRequest(nil, "protocol_state", "RCPT", "recipient", "bob@example.net")
	must(err)
	fmt.Println(strings.TrimSpace(ask(l, string(request))))
	stop(s, served)
	// Output:
	// action=DUNNO
	// door: server closed
}

// one lists one domain.
type one struct{}

func (one) HasDomain(name string) bool { return name == "spam.example" }
func (one) HasAddr(netip.Addr) bool    { return false }
func (one) HasDigest(string) bool      { return false }
func (one) Describe() string           { return "made up" }
func (one) Updated() time.Time         { return time.Unix(0, 0) }

func Example_dnsbl() {
	pc := listenPacket()
	s := &dnsbl.Server{Zones: []dnsbl.Zone{{Name: "bl.example.com", Form: dnsbl.Domains, List: one{}}}}
	served := make(chan error, 1)
	go func() { served <- s.ServePacket(pc) }()
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
	found, err := r.LookupNetIP(context.Background(), "ip4", "spam.example.bl.example.com.")
	must(err)
	fmt.Println(found)
	stop(s, served)
	// Output:
	// [127.0.0.2]
	// door: server closed
}

// Two sockets on one port, a listener, and one end for all of them.
func Example_door() {
	ctx, cancel := context.WithCancel(context.Background())
	conns, err := door.ListenPackets(ctx, "127.0.0.1:0", 2)
	must(err)
	s := &door.PacketServer{}
	s.Handler = s.Each(func(_ context.Context, p *door.Packet) { p.Reply = append(p.Reply, p.Data...) })
	var serve []func() error
	for _, c := range conns {
		serve = append(serve, func() error { return s.ServePacket(c) })
	}
	done := make(chan error, 1)
	go func() { done <- door.Run(ctx, s, serve...) }()

	c, err := net.Dial("udp", conns[0].LocalAddr().String())
	must(err)
	_, err = io.WriteString(c, "hello\n")
	must(err)
	answer, err := bufio.NewReader(c).ReadString('\n')
	must(err)
	fmt.Print(answer)
	cancel()
	fmt.Println(<-done)
	// Output:
	// hello
	// <nil>
}
