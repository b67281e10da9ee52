package stream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/lab/letters"
	"github.com/bulkhead-mail/bulkhead/signature"
	"github.com/bulkhead-mail/bulkhead/signature/mail"
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

// networkKey is the key of the simulated network.
var networkKey = [16]byte{'s', 't', 'r', 'e', 'a', 'm'}

// Read computes the signatures of all mail, once for each message, and finds the kind of
// each. The first error of mail ends it. progress is told how many messages are done, not of
// how many; it may be nil.
func Read(ctx context.Context, mail iter.Seq2[Mail, error], progress func(done int)) ([]*Letter, error) {
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
	}, func(ctx context.Context, m Mail, l *Letter) { l.read(ctx, &m) })
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

func (l *Letter) read(ctx context.Context, m *Mail) {
	header, _, _ := bytes.Cut(bytes.ReplaceAll(m.Raw, []byte("\r\n"), []byte("\n")), []byte("\n\n"))
	l.Kind = kindOf(m, header)
	message, err := mail.Read(ctx, m.Raw)
	if err != nil {
		l.err = err
		return
	}
	l.source = sourceOf(message, header, m.Spam)
	l.sigs, l.err = letters.Signed(ctx, message, signature.Senders(l.source), signature.Options{Key: networkKey})
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

// The results of a mail server, in the forms that occur in collections: some lack the name of
// the host that RFC 8601 demands.
var (
	results    = regexp.MustCompile(`(?im)^authentication-results:((?:[^\n]|\n[ \t])*)`)
	passedDKIM = regexp.MustCompile(`(?i)\bdkim=pass\b[^;]*\bheader\.d=([^;\s]+)`)
	passedSPF  = regexp.MustCompile(`(?i)\bspf=pass\b[^;]*\bsmtp\.mailfrom=(?:[^;\s@]*@)?([^;\s]+)`)
	senderIP   = regexp.MustCompile(`(?i)\bsender ip is ([0-9a-f.:]+)`)
	received   = regexp.MustCompile(`(?im)^received:(?:[^\n]|\n[ \t])*?\[([0-9a-f.:]+)\]`)
)

// sourceOf returns the source of a message as the server that received it would have found
// it: by the topmost Authentication-Results, or, for ham from before there were any, as if
// the author's or the list's domain had signed it.
func sourceOf(m *mail.Message, header []byte, spam bool) bulkhead.Source {
	var dkim []string
	spf := ""
	if field := results.FindSubmatch(header); field != nil {
		for _, d := range passedDKIM.FindAllSubmatch(field[1], -1) {
			dkim = append(dkim, string(d[1]))
		}
		if d := passedSPF.FindSubmatch(field[1]); d != nil {
			spf = string(d[1])
		}
	} else if !spam {
		signer := m.ListID
		if signer == "" {
			_, signer, _ = strings.Cut(m.From, "@")
		}
		if signer != "" {
			dkim = append(dkim, signer)
		}
	}
	source := m.SourceVerified(nil, "", dkim, spf)
	source.Client = clientOf(header)
	return source
}

// clientOf returns the address of the client that handed the message over: that of which the
// results speak, or else the first public one of a Received field. A server always knows
// it, but some headers do not say it: then it is one of a network of the message's own.
func clientOf(header []byte) netip.Addr {
	var fields [][]byte
	if field := results.FindSubmatch(header); field != nil {
		if ip := senderIP.FindSubmatch(field[1]); ip != nil {
			fields = append(fields, ip[1])
		}
	}
	for _, field := range received.FindAllSubmatch(header, -1) {
		fields = append(fields, field[1])
	}
	for _, field := range fields {
		if a, err := netip.ParseAddr(string(field)); err == nil && a.IsGlobalUnicast() && !a.IsPrivate() {
			return a
		}
	}
	own := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	sum := sha256.Sum256(header)
	copy(own[4:], sum[:8])
	return netip.AddrFrom16(own)
}
