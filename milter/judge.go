package milter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	netmail "net/mail"
	"slices"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// A Match is a list entry that matched something in a message.
type Match struct {
	List   string  // name of the list
	Tone   string  // "black", "white" or "grey"
	Entry  string  // the matching entry: the address, a parent domain, a network
	Reason string  // reason of the list; may be empty
	Error  float64 // probability that an entry which was never added would have been found
	Where  string  // the part of the message, for example "url"; set by this package
}

// Lists looks up addresses, URLs and client addresses. text is as it occurs in the
// message; text that Lists cannot read is not found. It is called concurrently.
type Lists interface {
	Find(text string) []Match
}

// An envelope is what the mail server sends about a message before its text.
type envelope struct {
	client     client
	sender     string
	recipients []string
	login      string // of an authenticated sender
	queueID    string
}

// findings are the results for one message.
type findings struct {
	verdict    bulkhead.Verdict
	white      *Match
	black      *Match
	grey       *Match
	trapped    int  // recipients that are traps
	unanswered bool // see [unanswered]
	faults     []error
}

// tooShort is the reason for a missing verdict if there are no signatures to look up.
const tooShort = "too short to be known by its text"

// judge counts and checks the message. It returns an error only if there is no result;
// lesser faults are in the findings.
func (s *Server) judge(ctx context.Context, e *envelope, raw []byte, replyTo []string) (*findings, error) {
	m, err := mail.Read(ctx, raw)
	if err != nil {
		return nil, err
	}
	people := s.setup.traps.spared(e.recipients)
	f := &findings{trapped: len(e.recipients) - len(people)}
	var hosts []string
	if s.AuthResults != nil {
		hosts = s.AuthResults()
	}
	verified := s.verify(ctx, raw, e)
	sigs, err := s.compute(ctx, m)
	v := <-verified // even if the signatures failed: no other receiver waits for it
	if err != nil {
		return nil, err
	}
	if gone := context.Cause(ctx); errors.Is(gone, door.ErrClientGone) {
		return nil, gone
	}
	source := m.SourceVerified(hosts, e.sender, v.dkim, v.spf)
	source.Client = e.client.addr
	if source.Features, err = s.features(ctx, m); err != nil {
		return nil, err
	}
	s.lookUp(ctx, f, e, m, &source, replyTo)
	if len(sigs) == 0 {
		f.verdict.Reasons = []string{tooShort}
		return f, nil
	}
	sigs = append(sigs, signature.Senders(source)...)
	report := bulkhead.Report{
		Signatures: sigs, Vote: bulkhead.Sighting, Count: uint32(max(len(people), 1)),
		Recipients: mailboxes(people), Source: source, Reporter: s.Reporter, ID: deliveryID(e, m),
	}
	f.verdict, err = s.Clearinghouse.Check(ctx, bulkhead.Query{Signatures: sigs, Source: source, Reporter: s.Reporter,
		Mailbox: first(report.Recipients)})
	if err != nil {
		return nil, fmt.Errorf("milter: check: %w", err)
	}
	f.unanswered = (s.Verify != nil || len(hosts) > 0) && unanswered(&f.verdict, sigs)
	if len(f.verdict.Reasons) == 0 && !bulkhead.Identifies(sigs) {
		f.verdict.Reasons = []string{tooShort}
	}
	if len(people) > 0 || f.trapped == 0 { // mail to traps alone is not delivered
		// The message counts itself: one with many recipients is bulk at once. If it is
		// sent again, its counts include it already.
		if !s.counting.done.has(report.ID) {
			f.verdict.Sightings = min(f.verdict.Sightings+report.Count, bulkhead.Many)
		}
		s.count(ctx, report, e.queueID)
	}
	if f.trapped > 0 && bulkhead.Identifies(sigs) {
		report.Vote, report.Count, report.Recipients = bulkhead.Spam, uint32(f.trapped), nil
		if report.Trap = true; report.ID != "" {
			report.ID = "trap " + report.ID
		}
		if err := s.report(ctx, report); err != nil {
			f.faults = append(f.faults, err)
		} else {
			s.Stats.Trapped.Add(1)
		}
	}
	return f, nil
}

// The limits of [unanswered].
const (
	surely     = 45 // confidence of a changed copy of a text with a whole vote against it
	forOneVote = 10 // sightings of the text for each vote
	// knownNetwork and usualText are the rules for mail like that of earlier days from its network.
	knownNetwork, usualText = "known-network", "usual-text"
)

// unanswered reports whether a suspected message is nearly a whole text that a reader reported, which
// was hardly seen otherwise, while no sender of it was verified, and its network sent no such mail before. The plugins
// have the same rule.
func unanswered(v *bulkhead.Verdict, sigs []bulkhead.Signature) bool {
	near := slices.ContainsFunc(v.Findings, func(f bulkhead.Finding) bool {
		return f.Signature.Scheme() == bulkhead.Near && f.Judged == bulkhead.JudgedSpam
	})
	nobody := slices.ContainsFunc(sigs, func(s bulkhead.Signature) bool { return s.Scheme() == bulkhead.Network })
	return v.Class == bulkhead.ClassSuspected && v.Rule != knownNetwork && v.Rule != usualText && near && nobody &&
		v.Confidence >= surely && v.Sightings <= forOneVote*max(1, v.SpamVotes)
}

// verified holds the verified domains of a message.
type verified struct {
	dkim []string
	spf  string
}

// verify determines the verified domains of a message while its signatures are computed,
// since it may wait for the DNS. The channel has one value.
func (s *Server) verify(ctx context.Context, raw []byte, e *envelope) <-chan verified {
	done := make(chan verified, 1)
	if s.Verify == nil {
		done <- verified{}
		return done
	}
	go func() {
		var v verified
		defer func() {
			if p := recover(); p != nil {
				s.Log.Error("panic while verifying a message", "panic", p)
			}
			if len(v.dkim) > 0 || v.spf != "" {
				s.Stats.Verified.Add(1)
			}
			done <- v
		}()
		v.dkim, v.spf = s.Verify(ctx, raw, e.client.addr, e.sender)
	}()
	return done
}

// parallelSize is the size of a message, in bytes, from which two processors
// compute its signatures.
const parallelSize = 4 << 10

// compute returns the signatures of m. Signatures of its text are included only if the text is
// distinctive enough. Its error is the error of ctx.
func (s *Server) compute(ctx context.Context, m *mail.Message) ([]bulkhead.Signature, error) {
	opts := s.Signatures
	opts.AboveFloor = true
	if len(m.Raw) >= parallelSize && opts.Workers == 0 {
		opts.Workers = 2 // the mail server waits
	}
	return signature.Compute(mail.WithMessage(ctx, m), m.Raw, opts)
}

// features returns the words and the style of m. Its error is the error of ctx.
func (s *Server) features(ctx context.Context, m *mail.Message) ([]string, error) {
	if s.Features == nil {
		return nil, nil
	}
	return s.Features(mail.WithMessage(ctx, m), m.Raw)
}

// maxPending is how many sightings may wait for the disk.
const maxPending = 512

// count counts a sighting without making the mail server wait for the disk. If too many sightings
// are waiting already, it waits, at most until ctx, the time for the message, ends. Serve waits for
// pending sightings at its end.
func (s *Server) count(ctx context.Context, r bulkhead.Report, queueID string) {
	work := func(ctx context.Context) {
		defer func() {
			if p := recover(); p != nil {
				s.Stats.Faults.Add(1)
				s.Log.Error("panic while counting a message", "panic", p)
			}
		}()
		if err := s.report(ctx, r); err != nil {
			s.Stats.Faults.Add(1)
			s.Log.Warn("message was checked but not counted", "queue_id", queueID, "err", err)
			return
		}
		s.counting.done.add(r.ID)
	}
	select {
	case s.counting.slots <- struct{}{}:
		s.counting.running.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Timeout)
			defer cancel()
			work(ctx)
			<-s.counting.slots
		})
	default:
		work(ctx)
	}
}

// Flush waits until all judged messages are counted. It must not be called while
// messages arrive.
func (s *Server) Flush() { s.counting.running.Wait() }

func (s *Server) report(ctx context.Context, r bulkhead.Report) error {
	if _, err := s.Clearinghouse.Report(ctx, r); err != nil {
		return fmt.Errorf("milter: %s of %d signatures: %w", r.Vote, len(r.Signatures), err)
	}
	return nil
}

// deliveryID returns the same ID for a message that the sender retries after a temporary refusal,
// so that it is counted once, and another ID for the same message to other recipients.
func deliveryID(e *envelope, m *mail.Message) string {
	if m.MessageID == "" {
		return ""
	}
	h := sha256.New()
	recipients := slices.Sorted(slices.Values(e.recipients))
	for _, part := range append([]string{e.client.addr.String(), e.sender, m.MessageID}, recipients...) {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// lookUp looks up the client, the senders and the URLs in the lists. A white entry clears only
// proven identities: the client, by its connection, and the names that the source gives as
// verified. Other names in a message can be forged, so they may condemn it but never clear it. A
// whitelisted URL clears only itself.
func (s *Server) lookUp(ctx context.Context, f *findings, e *envelope, m *mail.Message,
	source *bulkhead.Source, replyTo []string) {
	if s.Lists == nil {
		return
	}
	white := func(m Match) bool { return m.Tone == "white" }
	ask := func(where, text string, proven bool) {
		if text == "" {
			return
		}
		for _, match := range s.Lists.Find(text) {
			if proven || !white(match) {
				match.Where = where
				f.note(match)
			}
		}
	}
	if e.client.addr.IsValid() {
		ask("client", e.client.addr.String(), true)
	}
	for _, d := range source.DKIM {
		ask("dkim", d, true)
	}
	ask("envelope sender", e.sender, e.sender == source.Sender)
	ask("from", m.From, m.From == source.Sender)
	ask("sender", m.Sender, false)
	for _, a := range replyTo {
		ask("reply-to", a, false)
	}
	for _, u := range urls(ctx, m) {
		if !slices.ContainsFunc(s.Lists.Find(u), white) {
			ask("url", u, false)
		}
	}
}

// note keeps the first match of each tone.
func (f *findings) note(m Match) {
	slot := &f.grey
	switch m.Tone {
	case "white":
		slot = &f.white
	case "black":
		slot = &f.black
	}
	if *slot == nil {
		*slot = &m
	}
}

// maxReplyTo is how many addresses of all Reply-To fields of a message are
// looked up.
const maxReplyTo = 10

// addresses returns the first addresses of a Reply-To field; none if it cannot be
// read.
func addresses(field string) []string {
	// A field that cannot be read has no addresses.
	list, _ := netmail.ParseAddressList(strings.ReplaceAll(strings.ReplaceAll(field, "\r", ""), "\n", ""))
	var all []string
	for _, a := range list[:min(len(list), maxReplyTo)] {
		all = append(all, a.Address)
	}
	return all
}

// reason gives a short reason for the message's class.
func (f *findings) reason(c Class) string {
	match := map[Class]*Match{ClassWhite: f.white, ClassListed: f.black, ClassGrey: f.grey}[c]
	switch {
	case match != nil:
		text := fmt.Sprintf("%s %s is in list %s", match.Where, match.Entry, match.List)
		if match.Reason != "" {
			text += " (" + match.Reason + ")"
		}
		return text
	case c == ClassWhite:
		return "whitelisted: " + f.verdict.Whitelisted
	case len(f.verdict.Reasons) > 0:
		return f.verdict.Reasons[0]
	}
	return "nothing is known of it"
}

// traps is a set of addresses ("local@domain") and domains ("@domain") that receive only
// spam.
type traps map[string]bool

func newTraps(all []string) (traps, error) {
	t := make(traps)
	for _, a := range all {
		at := strings.LastIndexByte(a, '@')
		if at < 0 || at == len(a)-1 || strings.ContainsAny(a, " \t<>") {
			return nil, fmt.Errorf("milter: trap %.80q is neither local@domain nor @domain", a)
		}
		domain, err := asciiDomain(a[at+1:])
		if err != nil {
			return nil, fmt.Errorf("milter: trap %.80q: %w", a, err)
		}
		t[strings.ToLower(a[:at+1])+domain] = true
	}
	return t, nil
}

// has reports whether a recipient is a trap.
func (t traps) has(recipient string) bool {
	at := strings.LastIndexByte(recipient, '@')
	if at < 0 {
		return false
	}
	domain := domainOf(recipient) // one without an ASCII form is not a trap
	return t[strings.ToLower(recipient[:at+1])+domain] || t["@"+domain]
}

// spared returns the recipients that are not traps.
func (t traps) spared(recipients []string) []string {
	return slices.DeleteFunc(slices.Clone(recipients), t.has)
}

// mailboxes returns the distinct mailboxes of recipients, up to the limit of a report.
func mailboxes(recipients []string) []string {
	seen := make(map[string]bool, len(recipients))
	var all []string
	for _, r := range recipients {
		if m := bulkhead.Mailbox(r); !seen[m] && len(all) < bulkhead.MaxRecipients {
			seen[m] = true
			all = append(all, m)
		}
	}
	return all
}

// errPanic replaces a panic while a message was judged.
var errPanic = errors.New("milter: panic while judging a message")

// first returns the first mailbox of a message, "" if there is none.
func first(mailboxes []string) string {
	if len(mailboxes) == 0 {
		return ""
	}
	return mailboxes[0]
}
