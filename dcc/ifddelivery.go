package dcc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
)

// A wholeMail is what is known of a message besides its DCC checksums. Without
// signatures, only the checksums count.
type wholeMail struct {
	sigs    []bulkhead.Signature // nil: not read
	source  bulkhead.Source
	verdict bulkhead.Verdict
	judged  bool // the verdict is set
}

// readWhole reads all signatures of a message and its source.
func (s *Ifd) readWhole(ctx context.Context, m *mailing) {
	if s.Signatures == nil {
		return
	}
	sigs, source, err := s.Signatures(ctx, m.message, m.request.sender, m.client())
	if err != nil {
		// Odd mail still has its checksums.
		s.Log.Debug("signatures of a message", "err", err)
		return
	}
	m.whole.sigs, m.whole.source = sigs, source
}

// judge gets the verdict on the whole message. It sets failed if there is none, and
// clears a message on the clearinghouse's whitelist.
func (s *Ifd) judge(ctx context.Context, m *mailing) {
	w := &m.whole
	if len(w.sigs) == 0 || m.spam {
		return // the caller, or one of its lists, has judged the message
	}
	v, err := s.Clearinghouse.Check(ctx, bulkhead.Query{Signatures: m.allSignatures(s.kept(m)),
		Source: w.source, Reporter: m.who, Mailbox: m.mailbox()})
	if err != nil {
		s.Log.Error("message not judged", "err", err)
		m.failed = true
		return
	}
	w.verdict, w.judged = v, true
	if v.Whitelisted != "" {
		m.clear()
		s.Stats.White.Add(1)
		return
	}
	if m.metrics.listed = v.Class == bulkhead.ClassSpam; m.metrics.listed && len(v.Reasons) > 0 {
		m.metrics.reason = v.Reasons[0]
	}
}

// allSignatures returns the signatures of the whole message and of its checksums, at most maxVotes.
func (m *mailing) allSignatures(kept []Checksum) []bulkhead.Signature {
	all := slices.Clone(m.whole.sigs)
	for i := range kept {
		if sig := signatureOf(&kept[i]); !slices.Contains(all, sig) {
			all = append(all, sig)
		}
	}
	return all[:min(len(all), maxVotes)]
}

// deliver counts the delivery of a message by everything but the checksums, which are
// counted already, each time and for each recipient.
func (s *Ifd) deliver(ctx context.Context, m *mailing, counted []Checksum) {
	sigs := slices.Clone(m.whole.sigs)
	for i := range counted {
		sig := signatureOf(&counted[i])
		sigs = slices.DeleteFunc(sigs, func(other bulkhead.Signature) bool { return other == sig })
	}
	if len(sigs) == 0 {
		return
	}
	r := bulkhead.Report{
		Signatures: sigs[:min(len(sigs), maxVotes)], Vote: bulkhead.Sighting, Count: uint32(m.rcptNum),
		Recipients: m.mailboxes(), Source: m.whole.source, Reporter: m.who, ID: m.deliveryID(),
	}
	if _, err := s.Clearinghouse.Report(ctx, r); err != nil {
		s.Log.Warn("delivery not counted", "err", err)
	}
}

// noRecipient is the address that rspamd sends if it does not know the recipient.
const noRecipient = "test@example.com"

// mailboxes returns the different mailboxes that the message is counted for, up to the
// limit of a report; nil unless the caller names all of them. SpamAssassin calls every
// recipient "unknown": as one mailbox, all its mail would count once.
func (m *mailing) mailboxes() []string {
	seen := make(map[string]bool)
	var all []string
	for i, f := range m.fates {
		address := m.request.recipients[i].address
		if f.white || f.disabled {
			continue
		}
		if address == noRecipient || !strings.Contains(address, "@") {
			return nil
		}
		box := bulkhead.Mailbox(strings.Trim(address, "<>"))
		if !seen[box] && len(all) < bulkhead.MaxRecipients {
			seen[box] = true
			all = append(all, box)
		}
	}
	return all
}

// mailbox returns the first mailbox that the message is counted for, "" if that is not known.
func (m *mailing) mailbox() string {
	if all := m.mailboxes(); len(all) > 0 {
		return all[0]
	}
	return ""
}

// deliveryID returns the same ID for a message that is sent again after a delay, so that its
// delivery counts once. It returns "" without a Message-ID.
func (m *mailing) deliveryID() string {
	i := slices.IndexFunc(m.sums, func(s digests.Sum) bool { return s.Type == digests.TypeMessageID && !s.Local })
	if i < 0 {
		return ""
	}
	var to []string
	for _, r := range m.request.recipients {
		to = append(to, r.address)
	}
	slices.Sort(to)
	h := sha256.New()
	for _, part := range append([]string{m.opt.Client.String(), m.request.sender, string(m.sums[i].Sum[:])}, to...) {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// settle applies the verdict on the whole message to the totals of a checksum. Only the
// verdict decides what is many: a changed copy of a reported message may have the same
// checksums and be no more than suspected.
func (m *mailing) settle(t *tally) {
	if m.whole.judged {
		t.judged, t.claims.Added, t.claims.AddedSince = bulkhead.Unjudged, 0, 0
	}
}

// near adds the copies of a message, including changed ones, to the total of a fuzzy checksum,
// which counts only copies with the same sum. The total of Body stays the count of equal copies.
// report means that this message was counted.
func (m *mailing) near(c *countedSum, report bool) {
	if !m.whole.judged || m.spam || c.Type != digests.TypeFuz1 && c.Type != digests.TypeFuz2 {
		return
	}
	before := m.whole.verdict.Sightings
	c.total.Previous = max(c.total.Previous, before)
	if report {
		before = min(before+uint32(m.rcptNum), Many)
	}
	c.total.Current = max(c.total.Current, before)
}

// ofText reports whether a checksum is of a message's text.
func ofText(t digests.Type) bool {
	return t == digests.TypeBody || t == digests.TypeFuz1 || t == digests.TypeFuz2
}

// refusesMany reports whether a recipient refuses messages whose text is many.
func (f *recipientFate) refusesMany() bool {
	for t, n := range f.thresholds {
		if ofText(t) && n > 0 {
			return true
		}
	}
	return false
}
