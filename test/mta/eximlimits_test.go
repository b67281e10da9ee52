//go:build interop

package mta

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/ratelimit"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// Exim and our limiter get the same random events for ten periods, and for as many more as it
// takes until there were enough of them.
const (
	comparePeriod  = 2 * time.Second
	comparePeriods = 10
	compareSeed    = 19
	leastOfKind    = 10
	leastEvents    = 400
)

// A comparison is one ratelimit condition of Exim beside the rule that is to be its equal.
type comparison struct {
	where  string // the ACL: connect, helo, mail, rcpt or predata
	exim   string // "limit / options / key", between which the period comes
	rule   ratelimit.Rule
	unique bool
	amount []float64      // what an event may count, "count=" or a size; none: 1
	limits map[int]string // of single keys
	of     int            // the comparison whose counts it reads, with readonly
	peek   bool           // our side is asked to count nothing

	limiter *ratelimit.Limiter
}

// comparisons returns one of each kind. XKEY, XAMOUNT and XITEM are parts of the sender's
// address.
func comparisons() []*comparison {
	const limitOfKeys = "${lookup{XKEY}lsearch{XFILE}{$value}{4}}"
	return []*comparison{
		{where: "rcpt", exim: "5 / per_rcpt / strict", rule: ratelimit.Rule{Per: ratelimit.PerRcpt, Limit: 5, Strict: true}},
		{where: "rcpt", exim: "5 / per_rcpt / leaky", rule: ratelimit.Rule{Per: ratelimit.PerRcpt, Limit: 5}},
		{where: "rcpt", exim: "7.5 / per_rcpt / count=XAMOUNT / leaky", amount: []float64{0, 0.25, 0.5, 1, 1.75, 9},
			rule: ratelimit.Rule{Per: ratelimit.PerRcpt, Count: "{size}", Limit: 7.5}},
		{where: "rcpt", exim: "2.5 / per_rcpt / count=XAMOUNT / strict", amount: []float64{0, 0.1, 0.5, 1.5, 3},
			rule: ratelimit.Rule{Per: ratelimit.PerRcpt, Count: "{size}", Limit: 2.5, Strict: true}},
		{where: "rcpt", exim: "6 / per_addr / leaky", unique: true, rule: ratelimit.Rule{Per: ratelimit.PerAddr, Limit: 6}},
		{where: "rcpt", exim: "6 / per_addr / strict", unique: true,
			rule: ratelimit.Rule{Per: ratelimit.PerAddr, Limit: 6, Strict: true}},
		{where: "mail", exim: "4.5 / per_mail / unique=XITEM / count=XAMOUNT / leaky", unique: true,
			amount: []float64{0.5, 1, 2}, rule: ratelimit.Rule{Per: ratelimit.PerMail, Unique: "{queue_id}", Count: "{size}",
				Limit: 4.5}},
		{where: "helo", exim: "4 / per_cmd / strict",
			rule: ratelimit.Rule{Per: ratelimit.PerCmd, State: ratelimit.StateEhlo, Limit: 4, Strict: true}},
		{where: "connect", exim: "3 / per_conn / leaky", rule: ratelimit.Rule{Per: ratelimit.PerConn, Limit: 3}},
		{where: "mail", exim: "6 / per_mail / leaky", rule: ratelimit.Rule{Per: ratelimit.PerMail, Limit: 6}},
		{where: "mail", exim: "5000 / per_byte / leaky", amount: []float64{0, 1, 700, 3000, 20_000},
			rule: ratelimit.Rule{Per: ratelimit.PerByte, State: ratelimit.StateMail, Limit: 5000}},
		{where: "mail", exim: "5000 / per_byte / strict", amount: []float64{0, 1, 700, 3000, 20_000},
			rule: ratelimit.Rule{Per: ratelimit.PerByte, State: ratelimit.StateMail, Limit: 5000, Strict: true}},
		{where: "predata", exim: "10 / per_rcpt / strict", amount: []float64{1, 2, 5},
			rule: ratelimit.Rule{Per: ratelimit.PerRcpt, State: ratelimit.StateData, Limit: 10, Strict: true}},
		{where: "rcpt", exim: "0 / per_rcpt / strict",
			rule: ratelimit.Rule{Per: ratelimit.PerRcpt, Limit: 0, Action: ratelimit.Dunno}},
		{where: "rcpt", exim: "0 / per_addr / strict", unique: true,
			rule: ratelimit.Rule{Per: ratelimit.PerAddr, Limit: 0, Action: ratelimit.Dunno}},
		{where: "rcpt", exim: limitOfKeys + " / per_rcpt / leaky", limits: map[int]string{0: "2", 1: "9.5"},
			rule: ratelimit.Rule{Per: ratelimit.PerRcpt, Limit: 4}},
		{where: "rcpt", exim: limitOfKeys + " / per_addr / strict", unique: true, limits: map[int]string{0: "2", 1: "9.5"},
			rule: ratelimit.Rule{Per: ratelimit.PerAddr, Limit: 4, Strict: true}},
		{where: "mail", exim: "3 / per_rcpt / readonly", of: 0,
			rule: ratelimit.Rule{Name: "reader", State: ratelimit.StateMail, Limit: 3}},
		{where: "rcpt", exim: "5 / per_rcpt / noupdate", of: 1, peek: true},
		{where: "rcpt", exim: "6 / per_addr / readonly", of: 4, peek: true},
	}
}

const compareKeys = 3 // of each comparison

// reads reports whether nothing is counted.
func (c *comparison) reads() bool { return c.peek || c.rule.Name == "reader" }

// config returns Exim's ACL of the comparison with the number i.
func (c *comparison) config(i int, file string) string {
	limit, options, _ := strings.Cut(c.exim, " / ")
	number := i
	if c.reads() {
		number = c.of
	}
	key, result := fmt.Sprintf("c%d-XKEY", number), "out"
	mine := fmt.Sprintf("${if eq{XCASE}{c%d}}", i)
	switch c.where {
	case "connect":
		key, mine, result = "$sender_host_address", "yes", "conn"
	case "helo":
		key, mine = "$sender_helo_name", "yes"
	}
	text := fmt.Sprintf(`
  warn condition = %[1]s
       set acl_c_before = $tod_epoch_l
       set acl_c_over = no
  warn condition = %[1]s
       ratelimit = %[2]s / %[3]s / %[4]s / %[5]s
       set acl_c_over = yes
  warn condition = %[1]s
       set acl_c_%[7]s = case=%[6]d over=$acl_c_over rate=$sender_rate before=$acl_c_before after=$tod_epoch_l
`, mine, limit, comparePeriod, options, key, i, result)
	for _, r := range []struct{ name, value string }{
		{"XCASE", "${extract{1}{.}{$sender_address_local_part}}"}, {"XKEY", "${extract{2}{.}{$sender_address_local_part}}"},
		{"XAMOUNT", "${sg{${extract{3}{.}{$sender_address_local_part}}}{_}{.}}"},
		{"XITEM", "${extract{4}{.}{$sender_address_local_part}}"}, {"XFILE", file},
	} {
		text = strings.ReplaceAll(text, r.name, r.value)
	}
	return text
}

// A compared is a key of one comparison, and what is known of it.
type compared struct {
	of         int
	number     int
	generation int       // counts up when the key has to be another one
	begun      time.Time // of its filter
	gap        time.Duration
	busy       bool
	events     int // until it is busy, or rests
	next       time.Time
}

func (k *compared) name() string { return fmt.Sprintf("k%dg%d", k.number, k.generation) }

// renew makes it another key.
func (k *compared) renew() { k.generation, k.begun, k.gap = k.generation+1, time.Time{}, 0 }

// await sets when the key has its next event: bursts, even streams and silences.
func (k *compared) await(r *rand.Rand, now time.Time) {
	if k.events--; k.events > 0 {
		if k.busy {
			k.next = now
		} else {
			k.next = now.Add(time.Duration(r.Int64N(int64(comparePeriod / 2))))
		}
		return
	}
	k.busy, k.events = r.IntN(2) == 0, 1+r.IntN(12)
	k.next = now.Add(time.Duration(r.Int64N(int64(3 * comparePeriod))))
}

// An eximSide asks Exim.
type eximSide struct {
	addr string
	c    *smtpClient
}

type eximAnswer struct {
	rate          float64
	over          bool
	before, after time.Time
}

func (e *eximSide) answer(t testing.TB, i int, text string) (a eximAnswer) {
	t.Helper()
	var over, rate string
	var n int
	var before, after int64
	text = strings.Join(strings.Fields(text), " ") // Exim folds long replies
	if _, err := fmt.Sscanf(text, "case=%d over=%s rate=%s before=%d after=%d", &n, &over, &rate, &before,
		&after); err != nil || n != i {
		t.Fatalf("Exim answers %q to comparison %d: %v", text, i, err)
	}
	var err error
	if a.rate, err = strconv.ParseFloat(rate, 64); err != nil {
		t.Fatal(err)
	}
	a.over, a.before, a.after = over == "yes", time.UnixMicro(before), time.UnixMicro(after)
	return a
}

// show returns what the last command has said of itself.
func (e *eximSide) show(t testing.TB, c *smtpClient) string {
	t.Helper()
	code, text := c.send(t, "RCPT TO:<x@show.example>")
	if code != 250 {
		t.Fatalf("%d %s", code, text)
	}
	c.ok(t, 250, "RSET")
	return text
}

// ask makes Exim count an event.
func (e *eximSide) ask(t testing.TB, c *comparison, k *compared, item int, amount float64) eximAnswer {
	t.Helper()
	sender := fmt.Sprintf("c%d.%s.%s.i%d@example.org", k.of, k.name(),
		strings.ReplaceAll(strconv.FormatFloat(amount, 'f', -1, 64), ".", "_"), item)
	switch c.where {
	case "connect":
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+k.generation), byte(10+k.number))}}
		conn, err := dialer.Dial("tcp", e.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		s := &smtpClient{c: conn, r: bufio.NewReader(conn)}
		if code, text := s.reply(t); code != 220 {
			t.Fatalf("greeting %d %s", code, text)
		}
		s.ok(t, 250, "HELO c.example")
		s.ok(t, 250, "MAIL FROM:<>")
		code, text := s.send(t, "RCPT TO:<x@connect.example>")
		if code != 250 {
			t.Fatalf("%d %s", code, text)
		}
		s.ok(t, 221, "QUIT")
		return e.answer(t, k.of, text)
	case "helo":
		e.c.ok(t, 250, "EHLO %s.example", k.name())
		e.c.ok(t, 250, "MAIL FROM:<>")
		return e.answer(t, k.of, e.show(t, e.c))
	case "mail":
		size := ""
		if strings.Contains(c.exim, "per_byte") && amount > 0 {
			size = fmt.Sprintf(" SIZE=%.0f", amount)
		}
		e.c.ok(t, 250, "MAIL FROM:<%s>%s", sender, size)
		return e.answer(t, k.of, e.show(t, e.c))
	case "predata":
		e.c.ok(t, 250, "MAIL FROM:<%s>", sender)
		for i := range int(amount) {
			e.c.ok(t, 250, "RCPT TO:<r%d@example.com>", i)
		}
		code, text := e.c.send(t, "DATA")
		if code != 550 {
			t.Fatalf("DATA: %d %s", code, text)
		}
		e.c.ok(t, 250, "RSET")
		return e.answer(t, k.of, text)
	}
	e.c.ok(t, 250, "MAIL FROM:<%s>", sender)
	code, text := e.c.send(t, "RCPT TO:<i%d@example.com>", item)
	if code != 250 {
		t.Fatalf("RCPT: %d %s", code, text)
	}
	e.c.ok(t, 250, "RSET")
	return e.answer(t, k.of, text)
}

// ours lets our limiter decide the same event.
func (c *comparison) ours(t testing.TB, k *compared, item int, amount float64) ratelimit.Outcome {
	t.Helper()
	state := map[string]string{"connect": "CONNECT", "helo": "HELO", "mail": "MAIL", "rcpt": "RCPT",
		"predata": "DATA"}[c.where]
	number := strconv.FormatFloat(amount, 'f', -1, 64)
	attributes := map[string]string{
		"protocol_state": state, "client_name": k.name(), "recipient": fmt.Sprintf("i%d@example.com", item),
		"queue_id": fmt.Sprint("i", item),
		"size":     number, "recipient_count": number,
	}
	ask := c.limiter.Apply
	if c.peek {
		ask = c.limiter.Peek
	}
	_, _, outcomes, err := ask(func(name string) []byte { return []byte(attributes[name]) })
	if err != nil || len(outcomes) != 1 {
		t.Fatalf("%s: %+v, %v", c.exim, outcomes, err)
	}
	return outcomes[0]
}

// TestEximLimits compares every kind of limit with Exim's own ratelimit, event by event: random
// bursts, streams and silences of several keys over ten periods. The node's limiter gets the time
// at which Exim has counted. The remaining differences come from Exim's rounding to tenths, and
// from the precision of that time. The seed decides what happens, and the machine when.
//
// Kept out are the first and last moments of a second (see eximClock), and the second in
// which Exim's filter, whose age it knows in whole seconds, may be gone or not.
func TestEximLimits(t *testing.T) {
	cases := comparisons()
	now := time.Now()
	acls := make(map[string]string)
	var keys []*compared
	for i, c := range cases {
		acls[c.where] += c.config(i, "XLIMITS")
		for n := range compareKeys {
			keys = append(keys, &compared{of: i, number: n})
		}
		if c.peek {
			c.limiter = cases[c.of].limiter
			continue
		}
		rules := []ratelimit.Rule{c.rule}
		rules[0].Name, rules[0].Key, rules[0].Period = "r", "{client_name}", comparePeriod
		if c.rule.Name == "reader" {
			rules[0] = c.rule
			rules[0].Reads = "r"
			rules = append(rules, cases[c.of].rule)
			rules[1].Name, rules[1].Key, rules[1].Period = "r", "{client_name}", comparePeriod
			cases[c.of].limiter = nil // one for both, below
		}
		for n, limit := range c.limits {
			for g := range 20 {
				rules[0].Limits = append(rules[0].Limits, fmt.Sprintf("k%dg%d %s", n, g, limit))
			}
		}
		l, err := ratelimit.Open(ratelimit.Options{Rules: rules, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(c.exim, err)
		}
		if c.limiter = l; c.rule.Name == "reader" {
			cases[c.of].limiter = l
		}
	}
	for where, last := range map[string]string{
		"connect": "accept", "helo": "accept", "mail": "accept", "predata": "deny message = $acl_c_out",
		"rcpt": "accept domains = connect.example\n         message = $acl_c_conn\n  accept message = $acl_c_out",
	} {
		acls[where] += "\n  " + last + "\n"
	}
	var table strings.Builder
	for n, limit := range map[int]string{0: "2", 1: "9.5"} {
		for g := range 20 {
			fmt.Fprintf(&table, "k%dg%d: %s\n", n, g, limit)
		}
	}
	e := &eximSide{addr: startEximACLs(t, acls, table.String())}
	e.c = dialSMTP(t, e.addr)
	random := rand.New(rand.NewPCG(compareSeed, compareSeed))
	clock := eximClock{spoiled: make(map[string]int)}
	events, ties, spoiled, worst := make([]int, len(cases)), 0, 0, 0.0
	// A slow machine has fewer events in this time: then it takes longer, until there are enough.
	begun := time.Now()
	over := func() bool {
		took, total := time.Since(begun), 0
		for _, n := range events {
			total += n
		}
		return took > comparePeriods*comparePeriod && slices.Min(events) >= leastOfKind && total >= leastEvents ||
			took > comparePeriods*comparePeriod+nodetest.Patience
	}
	for !over() {
		k := keys[random.IntN(len(keys))]
		c := cases[k.of]
		at := time.Now()
		// A reader asks for the present key of the rate that it reads.
		if base := keys[c.of*compareKeys+k.number]; c.reads() {
			k.generation, k.gap = base.generation, base.gap
		}
		if age := at.Sub(k.begun); at.Before(k.next) ||
			c.unique && age > comparePeriod-200*time.Millisecond && age < comparePeriod+1200*time.Millisecond {
			time.Sleep(time.Millisecond)
			continue
		}
		item, amount := random.IntN(8), 1.0
		if len(c.amount) > 0 {
			amount = c.amount[random.IntN(len(c.amount))]
		}
		var theirs eximAnswer
		clock.ask(0, func() { theirs = e.ask(t, c, k, item, amount) })
		k.await(random, at)
		if theirs.before.Unix() != theirs.after.Unix() || theirs.before.Nanosecond() < int(20*time.Millisecond) {
			spoiled++
			k.renew()
			continue
		}
		now = theirs.before.Add(theirs.after.Sub(theirs.before) / 2)
		k.gap = max(k.gap, theirs.after.Sub(theirs.before))
		ours := c.ours(t, k, item, amount)
		events[k.of]++
		may := 0.051 + 2*(theirs.rate+amount)*-math.Expm1(-2*k.gap.Seconds()/comparePeriod.Seconds())
		difference := math.Abs(ours.Rate - theirs.rate)
		worst = max(worst, difference-2*(theirs.rate+amount)*-math.Expm1(-2*k.gap.Seconds()/comparePeriod.Seconds()))
		if difference > may {
			t.Errorf("%s, key %s, item %d, amount %g: Exim measures %g, we %.2f, want no more than %.2f between them", c.exim,
				k.name(), item, amount, theirs.rate, ours.Rate, may)
			k.renew()
			continue
		}
		over := ours.Over || ours.Limit == 0 // at which we only measure
		if over != theirs.over {
			if ties++; math.Abs(ours.Rate-ours.Limit) > may {
				t.Errorf("%s, key %s: over at %g: Exim %v, we at %.2f %v", c.exim, k.name(), theirs.rate, theirs.over,
					ours.Rate, ours.Over)
			}
			k.renew() // what was counted is not the same any more
			continue
		}
		counted := !c.reads() && (!ours.Over || c.rule.Strict || c.rule.Limit == 0)
		if c.unique && counted && ours.New && (k.begun.IsZero() || now.Sub(k.begun) >= comparePeriod) {
			k.begun = now
		}
	}
	total := 0
	for i, n := range events {
		if total += n; n < leastOfKind {
			t.Errorf("%s: only %d events", cases[i].exim, n)
		}
	}
	fmt.Printf(
		"| Exim's limits: %d events of %d kinds; rates differ by %.3f at most beyond what the time may explain; %d at the "+
			"limit, %d at the turn of a second left out\n", total, len(cases), max(0, worst), ties, spoiled)
	if total < leastEvents || ties > total/20 {
		t.Errorf("%d events, %d of them at the limit", total, ties)
	}
}
