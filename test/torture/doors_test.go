//go:build interop

package torture

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/dcc"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
	digest "github.com/bulkhead-mail/bulkhead/digest/pyzor"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
	"github.com/bulkhead-mail/bulkhead/fuzzy"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
	"github.com/bulkhead-mail/bulkhead/pyzor"
	"github.com/bulkhead-mail/bulkhead/razor2"
)

// A claim holds the count that a door has acknowledged, and the largest count it was sent, of a
// signature that no other client sends.
type claim struct {
	door     string
	spam     bool   // votes, else sightings
	min, max uint32 // acknowledged and sent
}

// Others are the clients of all doors except the door for counts, and a plain map of the answers
// they received.
type others struct {
	mu       sync.Mutex
	address  map[string]string
	claims   map[bulkhead.Signature]claim
	accounts map[string]string // of Razor, with their passwords
	acked    map[string]int    // requests, by door
	later    map[string]int    // signatures counted that were not acknowledged, by door
}

// patience is how long a client of a door waits.
const patience = 20 * time.Second

// keep is how many claims are compared again and again. More are compared once.
const keep = 4000

func newOthers(t testing.TB) *others {
	o := &others{address: make(map[string]string), acked: make(map[string]int), later: make(map[string]int)}
	o.forget()
	for _, name := range []string{"razor2", "pyzor", "dcc", "dccifd", "fuzzy", "milter", "policy", "dnsbl", "pyzor_helper",
		"razor_helper"} {
		o.address[name] = nodetest.Address(t)
	}
	return o
}

// expire is for a node that has dropped everything for its age. Accounts stay.
func (o *others) expire() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for sig, c := range o.claims {
		o.claims[sig] = claim{c.door, c.spam, 0, 0}
	}
}

// forget is for a node that begins anew.
func (o *others) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.claims, o.accounts = make(map[bulkhead.Signature]claim), make(map[string]string)
}

// config returns the addresses in the form of the configuration file.
func (o *others) config() string {
	var b strings.Builder
	for name, address := range o.address {
		fmt.Fprintf(&b, "%s = %q\n", name, address)
	}
	return b.String()
}

// use sends requests to all of these doors until ctx ends, or the node has gone.
func (o *others) use(ctx context.Context, rng *rand.Rand) {
	var wg sync.WaitGroup
	for _, door := range []func(context.Context, *rand.Rand) error{o.razor, o.pyzor, o.dcc, o.dccifd, o.fuzzy, o.milter,
		o.policy, o.dnsbl, o.pyzorHelper, o.razorHelper} {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := door(ctx, rng); err != nil {
					runFor(time.Duration(20+rng.IntN(100)) * time.Millisecond)
				}
				runFor(time.Duration(rng.IntN(30)) * time.Millisecond)
			}
		})
	}
	wg.Wait()
}

// claim notes what is sent before do, and what was taken after it.
func (o *others) claim(door string, sig bulkhead.Signature, spam bool, n uint32, do func() error) error {
	err := o.claimLater(door, sig, spam, n, do)
	if err == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.claims[sig] = claim{door, spam, n, n}
	}
	return err
}

// claimLater is claim for a door that does not promise to have counted what it answers.
func (o *others) claimLater(door string, sig bulkhead.Signature, spam bool, n uint32, do func() error) error {
	o.mu.Lock()
	o.claims[sig] = claim{door, spam, 0, n}
	o.mu.Unlock()
	return o.answered(door, do())
}

// answered notes a request that a door has answered.
func (o *others) answered(door string, err error) error {
	if err == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.acked[door]++
	}
	return err
}

// compare requires every claim to match the acknowledged counts, and returns a line for each that
// does not. If less is known to be lost, counts may only not be too high.
func (o *others) compare(ctx context.Context, house bulkhead.Counter, less bool) (wrong []string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var sigs []bulkhead.Signature
	for sig := range o.claims {
		sigs = append(sigs, sig)
	}
	for len(sigs) > 0 {
		sample := sigs[:min(500, len(sigs))]
		sigs = sigs[len(sample):]
		looks := make([]bulkhead.Look, len(sample))
		if err := house.Look(ctx, sample, looks, bulkhead.Counts|bulkhead.Judgements); err != nil {
			return wrong, err
		}
		for i, sig := range sample {
			c, got := o.claims[sig], looks[i].Sightings
			if c.spam {
				got = looks[i].Spam
			}
			if got < c.min && !less || got > c.max {
				wrong = append(wrong, fmt.Sprintf("%s: %v: %d, %d were acknowledged and %d sent", c.door, sig, got, c.min, c.max))
			}
			if got > c.min {
				o.later[c.door]++
			}
			if len(o.claims) > keep {
				delete(o.claims, sig)
				continue
			}
			o.claims[sig] = claim{c.door, c.spam, got, got}
		}
	}
	return wrong, nil
}

// logIn wants the accounts that were registered.
func (o *others) logIn(ctx context.Context) (wrong []string) {
	for name, password := range o.accounts {
		c, err := razor2.Dial(ctx, o.address["razor2"], nil)
		if err != nil {
			return append(wrong, err.Error())
		}
		if err := c.Login(ctx, razor2.Credentials{User: name, Password: password}); err != nil {
			wrong = append(wrong, fmt.Sprintf("razor2: account %s: %v", name, err))
		}
		c.Close()
		if len(o.accounts) > 10 {
			delete(o.accounts, name)
		}
	}
	return wrong
}

func random[T ~[]byte](rng *rand.Rand, b T) T {
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// mail returns a unique message.
func mail(rng *rand.Rand) (head, body string) {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "%c%c%c%c%c%c", 'a'+rng.IntN(26), 'a'+rng.IntN(26), 'a'+rng.IntN(26), 'a'+rng.IntN(26),
			'a'+rng.IntN(26), " \n"[i/9%2])
	}
	return "From: Ann <ann@shop.example>\nSubject: a trip to the island\n", b.String() + "\n"
}

// digestOf returns the signature by which a message is compared.
func digestOf(ctx context.Context, message string) (sig bulkhead.Signature, err error) {
	sigs, err := digest.Signatures(ctx, []byte(message))
	if err == nil && len(sigs) == 0 {
		err = errors.New("no digest of " + message)
	}
	if err != nil {
		return sig, err
	}
	return sigs[0], nil
}

func (o *others) razor(ctx context.Context, rng *rand.Rand) error {
	c, err := razor2.Dial(ctx, o.address["razor2"], &razor2.Options{Timeout: patience})
	if err != nil {
		return err
	}
	defer c.Close()
	account := razor2.Credentials{User: fmt.Sprintf("u%016x", rng.Uint64()), Password: fmt.Sprintf("%016x", rng.Uint64())}
	if _, err := c.Register(ctx, account); err != nil {
		return err
	}
	o.mu.Lock()
	o.accounts[account.User] = account.Password
	o.mu.Unlock()
	if err := c.Login(ctx, account); err != nil {
		return err
	}
	for range 5 {
		head, body := mail(rng)
		part := []byte("X-Razor2-Agent: Razor-Agents v2.84\n\n" + body)
		of, ok := razor.Prepared(part)
		if !ok {
			return errors.New("the mail has no signature")
		}
		if err := o.claim("razor2", of.E4, true, 1, func() error {
			return c.Report(ctx, []byte(head), [][]byte{part})
		}); err != nil {
			return err
		}
	}
	return nil
}

func (o *others) pyzor(ctx context.Context, rng *rand.Rand) error {
	sig, err := bulkhead.NewSignature(bulkhead.PyzorDigest, random(rng, make([]byte, 20)))
	if err != nil {
		return err
	}
	c, err := pyzor.Dial(ctx, o.address["pyzor"], &pyzor.Options{Timeout: patience})
	if err != nil {
		return err
	}
	defer c.Close()
	return o.claim("pyzor", sig, true, 1, func() error {
		_, err := c.Do(ctx, pyzor.OpReport, sig)
		return err
	})
}

func (o *others) dcc(ctx context.Context, rng *rand.Rand) error {
	c, err := dcc.Dial(ctx, o.address["dcc"], nil)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for range 5 {
		sum := dcc.Checksum{Type: digests.TypeBody}
		random(rng, sum.Sum[:])
		sig, err := bulkhead.NewSignature(bulkhead.DCCBody, sum.Sum[:])
		if err != nil {
			return err
		}
		n := 1 + rng.Uint32N(9)
		if err := o.claim("dcc", sig, false, n, func() error {
			_, err := c.Report(ctx, n, false, []dcc.Checksum{sum})
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func (o *others) fuzzy(ctx context.Context, rng *rand.Rand) error {
	c, err := fuzzy.Dial(ctx, o.address["fuzzy"], &fuzzy.Options{Timeout: patience, Retransmits: -1})
	if err != nil {
		return err
	}
	defer c.Close()
	var sum [fuzzy.DigestSize]byte
	random(rng, sum[:])
	sig, err := bulkhead.NewSignature(bulkhead.RspamdText, sum[:])
	if err != nil {
		return err
	}
	return o.claim("fuzzy", sig, true, 1, func() error { return c.Write(ctx, sum, nil, 1, 10) })
}

// ask sends a request over a connection of its own, and returns all that is said.
func (o *others) ask(door, request string) (string, error) {
	conn, err := net.DialTimeout("tcp", o.address[door], patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return "", err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	if err == nil && len(answer) == 0 {
		err = io.ErrUnexpectedEOF
	}
	return string(answer), err
}

func (o *others) dccifd(ctx context.Context, rng *rand.Rand) error {
	head, body := mail(rng)
	sig, err := digestOf(ctx, head+"\n"+body)
	if err != nil {
		return err
	}
	// Mail passes even if it cannot be counted.
	return o.claimLater("dccifd", sig, false, 1, func() error {
		answer, err := o.ask("dccifd", "header\n192.0.2.7\nmx.example.com\nann@shop.example\nbob@example.net\n\n"+
			head+"\n"+body)
		if err == nil && !strings.Contains(answer, "Body=1") {
			err = fmt.Errorf("answer %.200q", answer)
		}
		return err
	})
}

// milter is a mail server that wants no replies before the end but that to MAIL.
func (o *others) milter(ctx context.Context, rng *rand.Rand) error {
	head, body := mail(rng)
	head, body = strings.ReplaceAll(head, "\n", "\r\n"), strings.ReplaceAll(body, "\n", "\r\n")
	sig, err := digestOf(ctx, head+"\r\n"+body)
	if err != nil {
		return err
	}
	conn, err := net.DialTimeout("tcp", o.address["milter"], patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	step := func(command byte, data string) (reply byte, answer []byte, err error) {
		packet := append(binary.BigEndian.AppendUint32(nil, uint32(len(data)+1)), command)
		if _, err := conn.Write(append(packet, data...)); err != nil {
			return 0, nil, err
		}
		return readMilter(conn)
	}
	if reply, _, err := step('O', "\x00\x00\x00\x06\x00\x00\x01\xff\x00\x00\x00\x00"); err != nil || reply != 'O' {
		return fmt.Errorf("negotiation: %c %v", reply, err)
	}
	type request struct {
		command byte
		data    string
	}
	steps := []request{{'C', "shop.example\x004\x00\x19198.51.100.7\x00"}, {'H', "shop.example\x00"},
		{'M', "<ann@shop.example>\x00"}, {'R', "<bob@example.com>\x00"}, {'T', ""}}
	for line := range strings.SplitSeq(strings.TrimSpace(head), "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		steps = append(steps, request{'L', name + "\x00" + value + "\x00"})
	}
	for _, s := range append(steps, request{'N', ""}, request{'B', body}) {
		if reply, _, err := step(s.command, s.data); err != nil || reply != 'c' {
			return fmt.Errorf("%c: %c %v", s.command, reply, err)
		}
	}
	// The milter does not let the mail server wait until the mail is counted.
	return o.claimLater("milter", sig, false, 1, func() error {
		judged := false
		reply, answer, err := step('E', "")
		for ; err == nil && strings.IndexByte("imh", reply) >= 0; reply, answer, err = readMilter(conn) {
			judged = judged || strings.Contains(string(answer), "X-Bulkhead\x00")
		}
		if err == nil && (!judged || reply != 'a' && reply != 'c') {
			err = fmt.Errorf("reply %c, judged %v", reply, judged)
		}
		return err
	})
}

func readMilter(conn net.Conn) (reply byte, answer []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return 0, nil, err
	}
	answer = make([]byte, max(binary.BigEndian.Uint32(head[:]), 1)-1)
	_, err = io.ReadFull(conn, answer)
	return head[4], answer, err
}

func (o *others) policy(_ context.Context, rng *rand.Rand) error {
	answer, err := o.ask("policy",
		fmt.Sprintf(
			"request=smtpd_access_policy\nprotocol_state=RCPT\nsasl_username=u%d\nrecipient=r%d@example.com\n"+
				"client_address=192.0.2.7\n\n", rng.IntN(50), rng.IntN(1e6)))
	if err == nil && !strings.HasPrefix(answer, "action=") {
		err = fmt.Errorf("answer %.100q", answer)
	}
	return o.answered("policy", err)
}

func (o *others) dnsbl(ctx context.Context, rng *rand.Rand) error {
	name := dnsmessage.MustNewName(fmt.Sprintf("%d.2.0.192.list.example.", rng.IntN(256)))
	question := dnsmessage.Message{Header: dnsmessage.Header{ID: uint16(rng.Uint32())},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	packed, err := question.Pack()
	if err != nil {
		return err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", o.address["dnsbl"])
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := conn.Write(packed); err != nil {
		return err
	}
	buf := make([]byte, 1500)
	n, err := conn.Read(buf)
	var answer dnsmessage.Message
	if err == nil {
		err = answer.Unpack(buf[:n])
	}
	if err == nil && answer.ID != question.ID {
		err = errors.New("the answer to another question")
	}
	return o.answered("dnsbl", err)
}

func (o *others) pyzorHelper(_ context.Context, rng *rand.Rand) error {
	head, body := mail(rng)
	answer, err := o.ask("pyzor_helper", head+"\n"+body)
	if err == nil && !strings.Contains(answer, "(200, 'OK')") {
		err = fmt.Errorf("answer %.100q", answer)
	}
	return o.answered("pyzor_helper", err)
}

func (o *others) razorHelper(_ context.Context, rng *rand.Rand) error {
	head, body := mail(rng)
	answer, err := o.ask("razor_helper", head+"\n"+body)
	if err == nil && answer != "ham" {
		err = fmt.Errorf("answer %.100q", answer)
	}
	return o.answered("razor_helper", err)
}
