package dcc

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
)

// A mailing is one message on its way to its reply.
type mailing struct {
	request *ifdRequest
	message []byte
	who     bulkhead.Reporter
	opt     digests.Options
	sums    []digests.Sum // that are shown
	other   []digests.Sum // that are counted with them: Fuz1 by other rules
	fates   []recipientFate
	metrics metrics
	whole   wholeMail
	query   bool // the message is not counted
	called  bool // the caller reports it as spam
	ours    bool // the client is one of our own users
	spam    bool // it is counted as many
	failed  bool // the look-up failed
	refused bool // a claim of spam was not taken
	rcptNum int  // recipients for whom it is counted
}

// A recipientFate is the outcome of a message for one recipient.
type recipientFate struct {
	white, black, disabled bool
	trap                   bool // receives only spam
	reject, grey           bool
	thresholds             map[digests.Type]uint32
	noGrey                 bool
}

// answer returns the reply to a message.
func (s *Ifd) answer(ctx context.Context, q *ifdRequest, message []byte, who bulkhead.Reporter) []byte {
	m := &mailing{request: q, message: message, who: who, query: q.options.query, spam: q.options.spam}
	m.metrics = metrics{host: s.Host, serverID: s.ServerID, brand: s.Brand}
	s.findClient(m)
	m.called = m.spam
	var err error
	if err = m.compute(ctx); err == nil {
		err = s.judgeRecipients(ctx, m)
	}
	if err != nil {
		s.Log.Error("message not read", "client", who.Addr, "err", err)
		return temporary(q)
	}
	if len(q.recipients) == 0 && !m.spam {
		// The real daemon queries no server then, and returns no header.
		return m.reply("", "")
	}
	if m.metrics.white || s.cleared(ctx, m, m.spam) {
		s.Stats.White.Add(1)
	} else if !m.failed {
		s.readWhole(ctx, m)
		if s.judge(ctx, m); !m.metrics.white && !m.failed {
			s.countMessage(ctx, m)
		}
	}
	// A verdict has looked up all signatures in the whitelist.
	if !m.whole.judged && !m.metrics.white && !m.failed && !m.refused && m.bulky() && s.cleared(ctx, m, true) {
		s.Stats.White.Add(1)
	}
	if m.failed || m.refused {
		return temporary(q)
	}
	s.greylist(m)
	s.decide(m)
	return m.reply(m.metrics.header(), s.reportedText(m))
}

func (s *Ifd) reportedText(m *mailing) string {
	switch {
	case m.query || m.metrics.white:
		return "0"
	case m.spam:
		return "many"
	}
	return fmt.Sprint(m.rcptNum)
}

// findClient determines which host the message came from, looking behind relays that the
// whitelist names as our own.
func (s *Ifd) findClient(m *mailing) {
	q := m.request
	m.opt = digests.Options{Client: q.client, Sender: q.sender, Helo: q.helo, Substitute: s.Substitute, Rules: s.Rules,
		BothRules: true, Words: s.Words}
	received := receivedOf(m.message)
	next := func() bool {
		for len(received) > 0 {
			r := received[0]
			received = received[1:]
			if r.addr.IsValid() {
				m.opt.Client, m.opt.Helo = r.addr, r.helo
				return true
			}
		}
		return false
	}
	if !q.client.IsValid() {
		next()
	}
	for range q.options.skip {
		next()
	}
	const maxRelays = 10
	for range maxRelays {
		v, _ := s.white().address(m.opt.Client)
		switch v {
		case whiteMXDCC:
			m.query = true
			m.spam = false
		case whiteMX:
		default:
			m.ours = v == whiteSubmit
			return
		}
		if !next() {
			return
		}
	}
}

func (s *Ifd) white() *Whitelist {
	if s.White == nil {
		return nil
	}
	return s.White()
}

// judgeRecipients looks up the whitelists for each recipient. Its error is the error of ctx.
func (s *Ifd) judgeRecipients(ctx context.Context, m *mailing) error {
	common := s.white()
	verdict, err := s.listVerdict(ctx, common, m)
	if err != nil {
		return err
	}
	whites := 0
	for _, r := range m.request.recipients {
		var own *Whitelist
		if r.user != "" && s.UserWhite != nil {
			own = s.UserWhite(r.user)
		}
		f := recipientFate{thresholds: s.Thresholds}
		v := verdict
		if common != nil {
			f.apply(&common.Options)
			v = v.with(common.recipient(r.address))
		}
		if own != nil {
			f.apply(&own.Options)
			// The user's own list takes precedence over the common one.
			u, err := s.listVerdict(ctx, own, m)
			if err != nil {
				return err
			}
			if u = u.with(own.recipient(r.address)); u.decided() {
				v = u
			}
		}
		f.white, f.black = v.isWhite(), v.isBlack()
		f.trap = f.trap && !m.query
		m.spam = m.spam || f.trap
		m.metrics.black = m.metrics.black || f.black
		if f.white {
			whites++
		}
		if !f.white && !f.disabled {
			m.rcptNum++
		}
		m.fates = append(m.fates, f)
	}
	n := len(m.request.recipients)
	m.metrics.white = n > 0 && whites == n || n == 0 && verdict.isWhite()
	if n == 0 {
		m.rcptNum = 1
		m.metrics.black = verdict.isBlack()
	}
	if m.metrics.black && !m.query {
		m.spam = true
	}
	return nil
}

func (f *recipientFate) apply(o *WhiteOptions) {
	if o.DCC != nil {
		f.disabled = !*o.DCC
	}
	if o.Grey != nil {
		f.noGrey = !*o.Grey
	}
	if o.Trap != nil {
		f.trap = *o.Trap
	}
	if o.Thresholds != nil {
		merged := make(map[digests.Type]uint32)
		maps.Copy(merged, f.thresholds)
		maps.Copy(merged, o.Thresholds)
		f.thresholds = merged
	}
}

// A listVerdict is a whitelist's answer about a message.
type listVerdict struct {
	ok, half, many int
}

func (v listVerdict) with(value uint32, found bool) listVerdict {
	if found {
		switch value {
		case White:
			v.ok++
		case White2:
			v.half++
		case Many:
			v.many++
		}
	}
	return v
}

func (v listVerdict) isWhite() bool { return v.ok > 0 || v.half > 1 }
func (v listVerdict) isBlack() bool { return !v.isWhite() && v.many > 0 }
func (v listVerdict) decided() bool { return v.isWhite() || v.isBlack() }

// listVerdict looks up everything except the recipient in a whitelist. Its error is the error of
// ctx.
func (s *Ifd) listVerdict(ctx context.Context, w *Whitelist, m *mailing) (v listVerdict, err error) {
	if w == nil {
		return v, nil
	}
	v = v.with(w.address(m.opt.Client))
	for sum := range m.all() {
		if sum.Type != digests.TypeIP {
			v = v.with(w.lookup(&Checksum{sum.Type, sum.Sum}))
		}
	}
	for _, header := range w.headers {
		opt := m.opt
		opt.Substitute = header
		sums, err := digests.HeaderSums(ctx, m.message, opt)
		if err != nil {
			return v, err
		}
		for _, sum := range sums {
			if sum.Type == digests.TypeSubstitute {
				value, ok := w.subst[substitute{header, sum.Sum}]
				v = v.with(value, ok)
			}
		}
	}
	return v, nil
}

// countMessage counts the message and fills in its totals.
func (s *Ifd) countMessage(ctx context.Context, m *mailing) {
	kept := s.kept(m)
	report := !m.query && m.rcptNum > 0
	if report && len(kept) > 0 {
		if err := s.report(ctx, m, kept); err != nil {
			// Checks work even if reports do not: only a caller that just reports gets
			// the failure.
			s.Log.Error("message not counted", "err", err)
			report, m.refused = false, m.request.options.spam
		}
	}
	if report {
		s.Stats.Reported.Add(1)
		if !m.spam {
			s.deliver(ctx, m, kept)
		}
	} else {
		s.Stats.Queried.Add(1)
	}
	tallies, err := s.book.tallies(ctx, new(asking), kept)
	if err != nil {
		s.Log.Error("message not looked up", "err", err)
		m.failed = true
		return
	}
	s.showTotals(m, tallies, report)
}

// cleared looks up the clearinghouse's whitelist, which precedes all others. It sets
// failed when the context ends.
func (s *Ifd) cleared(ctx context.Context, m *mailing, signatures bool) bool {
	if s.Cleared == nil {
		return false
	}
	cleared, err := s.Cleared(ctx, m.message, m.request.sender, m.client(), signatures)
	if err != nil {
		s.Log.Error("message not read", "err", err)
		m.failed = true
	}
	if !cleared || err != nil {
		return false
	}
	m.clear()
	return true
}

// clear makes the message whitelisted for all recipients.
func (m *mailing) clear() {
	m.spam, m.called, m.metrics.white, m.metrics.black = false, false, true, false
	for i := range m.fates {
		m.fates[i] = recipientFate{white: true}
	}
}

// client returns the address of the client. It is the zero Addr if the caller has not named the
// client, so that the address comes from the message.
func (m *mailing) client() netip.Addr {
	if !m.request.client.IsValid() {
		return netip.Addr{}
	}
	return m.opt.Client
}

// bulky reports whether a total makes the message bulk, by itself or by the threshold of a
// recipient.
func (m *mailing) bulky() bool {
	return slices.ContainsFunc(m.metrics.sums, func(c countedSum) bool {
		over := func(f recipientFate) bool { return f.thresholds[c.Type] > 0 && c.total.Current >= f.thresholds[c.Type] }
		return c.kept && (c.total.Current >= Many || slices.ContainsFunc(m.fates, over))
	})
}

func (s *Ifd) report(ctx context.Context, m *mailing, kept []Checksum) error {
	up, err := s.book.raising(ctx, kept, uint32(m.rcptNum), m.spam)
	if err != nil {
		return err
	}
	if !m.spam {
		return s.book.house.Count(ctx, up.Sigs, up.N)
	}
	s.Stats.Spam.Add(1)
	r := bulkhead.Report{
		Signatures: m.allSignatures(kept), Vote: bulkhead.Spam, Source: m.whole.source, Reporter: m.who,
		Trap: !m.called && !m.metrics.black,
	}
	receipt, err := bulkhead.CountAndReport(ctx, s.book.house, up.Sigs, up.N, r)
	if err == nil && receipt.Refused() {
		m.metrics.reason = unlisted
	}
	return bulkhead.Tolerate(err)
}

// unlisted is the reason in the header of a message that was reported as spam but may not be
// listed: the protocol has no other place for it.
const unlisted = "not listed: it is whitelisted or does not distinguish messages"

// greylist asks the greylist for each recipient.
func (s *Ifd) greylist(m *mailing) {
	o := &m.request.options
	if s.Grey == nil || o.greyOff || m.ours || !m.opt.Client.IsValid() {
		return
	}
	ip := digests.IPSum(m.opt.Client)
	sender := digests.ValueSum("", m.opt.Sender)
	for i := range m.fates {
		f := &m.fates[i]
		if f.white || f.noGrey {
			continue
		}
		to := digests.ValueSum("", m.request.recipients[i].address)
		f.grey = s.Grey.Ask(GreyTriple(ip, sender, to), s.Now(), o.greyQuery || m.query) == GreyEmbargo
	}
}

// decide determines which recipients refuse the message.
func (s *Ifd) decide(m *mailing) {
	if m.metrics.white {
		return
	}
	m.metrics.bulk = m.spam || m.metrics.black || m.metrics.listed
	for i := range m.fates {
		f := &m.fates[i]
		if f.white || f.disabled {
			continue
		}
		// Mail that one recipient calls spam counts as many, for which others may have
		// no threshold.
		f.reject = f.black || f.trap || m.called || m.metrics.listed && f.refusesMany()
		for k := range m.metrics.sums {
			c := &m.metrics.sums[k]
			if t := f.thresholds[c.Type]; c.kept && t > 0 && c.total.Current >= t {
				f.reject = true
			}
		}
		m.metrics.bulk = m.metrics.bulk || f.reject
	}
	if m.metrics.bulk {
		s.Stats.Bulk.Add(1)
	}
	switch m.letter() {
	case letterReject:
		s.Stats.Rejected.Add(1)
	case letterGrey:
		s.Stats.Greylisted.Add(1)
	}
}

// letter is the first line of the reply.
func (m *mailing) letter() byte {
	rejects, greys := 0, 0
	for i := range m.fates {
		switch f := &m.fates[i]; {
		case f.reject:
			rejects++
		case f.grey:
			greys++
		}
	}
	n := len(m.fates)
	switch {
	case n == 0:
		return letterAccept
	case rejects == n:
		return letterReject
	case rejects+greys == n:
		return letterGrey // a greylisted message may pass or be refused later
	}
	return letterAccept
}

// reply assembles the reply.
//
// Source: docs/specs/dcc.md#dccifd-reply.
func (m *mailing) reply(header, reported string) []byte {
	o := &m.request.options
	letter := m.letter()
	if o.noReject && letter == letterReject {
		letter = letterAccept
	}
	out := []byte{letter, '\n'}
	for i := range m.fates {
		switch f := &m.fates[i]; {
		case f.reject:
			out = append(out, letterReject)
		case f.grey:
			out = append(out, letterGrey)
		default:
			out = append(out, letterAccept)
		}
	}
	out = append(out, '\n')
	switch {
	case o.body:
		if header == "" {
			return append(out, m.message...)
		}
		return append(out, insertHeader(m.message, m.metrics.brand, header)...)
	case o.cksums && header != "" && !m.metrics.white:
		out = append(out, header...)
		out = append(out, m.metrics.table(reported)...)
	case o.header || o.cksums:
		out = append(out, header...)
	default:
		return out
	}
	return append(out, '\n')
}
