package stream

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/lab/letters"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// A Mail is one message of a collection.
type Mail struct {
	Name string    // for errors, for example its file
	Set  string    // the collection; each is spread over the whole stream
	Time time.Time // of arrival, for its place in the collection
	Spam bool      // its label
	// Kind and Origin are what the collection says about it, or "". Kind is "clone-...",
	// "genuine", "wrong-...", or the name of a kind of ham, such as "list".
	Kind, Origin string
	// Campaign is the same for messages that were sent together; "" stands for a campaign of
	// its own.
	Campaign string
	Raw      []byte
}

// A Letter is what is kept of one message.
type Letter struct {
	Name     string
	Kind     Kind
	set      string
	time     time.Time
	campaign string
	sigs     []bulkhead.Signature
	source   bulkhead.Source
	err      error
}

// NetworkKey is the secret of the simulated network.
var NetworkKey = [16]byte{'s', 't', 'r', 'e', 'a', 'm'}

// Read computes the signatures of all mail, once for each message, and finds the kind of each.
// unverified is the share of ham, in [0, 1], that is read as if its sender were not verified: the
// same messages whenever the share is the same, and more where it is larger. The first error of
// mail ends it. progress is called with the number of messages done, without a total; it may be
// nil.
func Read(ctx context.Context, mail iter.Seq2[Mail, error], unverified float64,
	progress func(done int)) ([]*Letter, error) {
	if progress == nil {
		progress = func(int) {}
	}
	n := 0
	all, err := letters.Read(ctx, mail, func(m Mail) *Letter {
		l := &Letter{Name: m.Name, set: m.Set, time: m.Time, campaign: "of " + m.Campaign}
		if m.Campaign == "" {
			l.campaign = fmt.Sprint(n)
		}
		n++
		progress(n)
		return l
	}, func(ctx context.Context, m Mail, l *Letter) { l.read(ctx, &m, unverified) })
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if l.err != nil {
			return nil, fmt.Errorf("stream: %s: %w", l.Name, l.err)
		}
	}
	return all, nil
}

func (l *Letter) read(ctx context.Context, m *Mail, unverified float64) {
	header := letters.Header(m.Raw)
	l.Kind = kindOf(m, header)
	message, err := mail.Read(ctx, m.Raw)
	if err != nil {
		l.err = err
		return
	}
	l.source = letters.Source(message, header, m.Spam || unlucky(header, unverified))
	l.err = l.sign(ctx, message)
}

// sign computes what a door computes of a message whose source is known: its signatures, none if it has too
// little text to be identified, and its words and style.
func (l *Letter) sign(ctx context.Context, m *mail.Message) (err error) {
	opts := signature.Options{Key: NetworkKey, AboveFloor: true}
	if l.sigs, err = letters.Signed(ctx, m, signature.Senders(l.source), opts); err != nil {
		return err
	}
	l.source.Features, err = learn.Features(ctx, m)
	return err
}

// unlucky reports whether a message is one of a share, by its header alone.
func unlucky(header []byte, share float64) bool {
	sum := sha256.Sum256(header)
	return float64(binary.BigEndian.Uint32(sum[:]))/(1<<32) < share
}

// Header fields of lists and newsletters, for collections that do not name the kind.
var (
	ofList  = regexp.MustCompile(`(?im)^(list-id|list-post|mailing-list|x-mailman-version|x-beenthere|precedence: *list)`)
	ofMany  = regexp.MustCompile(`(?im)^(list-unsubscribe|precedence: *bulk)`)
	forMany = regexp.MustCompile(`(^|/)hard_ham(/|$)`)
)

// kindOf returns the kind of a message as its collection says, or else its header. The hard
// ham of one well-known corpus is nearly all newsletters.
func kindOf(m *Mail, header []byte) Kind {
	if m.Spam {
		if strings.HasPrefix(m.Kind, "clone-") {
			return Clone
		}
		return Spam
	}
	for k := Template; k < NumKinds; k++ {
		if m.Kind == k.String() || m.Kind+"s" == k.String() {
			return k
		}
	}
	switch {
	case m.Kind == "genuine":
		return Template
	case strings.HasPrefix(m.Kind, "wrong-"):
		return Quote
	case forMany.MatchString(m.Origin):
		return Newsletter
	case ofList.Match(header):
		return List
	case ofMany.Match(header):
		return Newsletter
	}
	return Personal
}

// A Copy is a message as it reached a mail server, with what the server verified.
type Copy struct {
	Raw      []byte
	Client   netip.Addr // that handed the message over; the zero value if unknown
	Envelope string     // sender of the envelope
	DKIM     []string   // domains of valid signatures
	SPF      string     // the envelope's domain if it lets the client send, else ""
}

// ReadCopy returns the letter of a copy.
func ReadCopy(ctx context.Context, c *Copy) (*Letter, error) {
	message, err := mail.Read(ctx, c.Raw)
	if err != nil {
		return nil, err
	}
	l := &Letter{source: message.SourceVerified(nil, c.Envelope, c.DKIM, c.SPF)}
	l.source.Client = c.Client
	return l, l.sign(ctx, message)
}

// Digest returns the letter as a client knows it that sends nothing but signatures of one scheme.
func (l *Letter) Digest(scheme bulkhead.Scheme) *Letter {
	other := func(s bulkhead.Signature) bool { return s.Scheme() != scheme }
	return &Letter{sigs: slices.DeleteFunc(slices.Clone(l.sigs), other)}
}
