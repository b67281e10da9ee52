package milter

import (
	"fmt"
	"strings"

	"golang.org/x/net/idna"

	"github.com/bulkhead-mail/bulkhead"
)

// An Action is the action for a message of one class.
type Action string

// The actions, the mildest first.
const (
	None       Action = "none"       // nothing, not even a header
	Header     Action = "header"     // add headers
	Quarantine Action = "quarantine" // hold the message in the mail server's queue
	Tempfail   Action = "tempfail"   // refuse temporarily
	Reject     Action = "reject"     // refuse permanently
)

var severity = map[Action]int{None: 0, Header: 1, Quarantine: 2, Tempfail: 3, Reject: 4}

// A Class is the result for a message.
type Class string

// The classes, the gravest first.
const (
	ClassWhite  Class = "white"  // its sender or signature is whitelisted: no other class applies
	ClassSpam   Class = "spam"   // judged spam in the blocklist book
	ClassListed Class = "listed" // sender, client or URL is in a black list
	// ClassSuspected resembles reported mail, with too little evidence to call it spam,
	// or is spam with less confidence than the policy requires.
	ClassSuspected Class = "suspected"
	ClassBulk      Class = "bulk" // seen at least as often as the threshold
	ClassGrey      Class = "grey" // sender, client or URL is in a grey list
	ClassNone      Class = "none"
)

// A Policy has the actions for mail to a recipient domain.
type Policy struct {
	// Domain is the recipients' domain, subdomains included. Empty: all recipients
	// without a policy of their own.
	Domain string
	// Spam, Listed, Suspected, Bulk and Grey are the actions for a message of the class.
	// Empty means Header.
	Spam, Listed, Suspected, Bulk, Grey Action
	// Confidence is the confidence, 0 to 100, from which a message is of class
	// spam for this domain; with less it is suspected.
	Confidence int
	// Threshold is the count from which a message is bulk for this domain; 0
	// means the node's own.
	Threshold uint32
	// Text is the reply for the sender of a refused message; {class} and {reason} are
	// replaced. Empty: a text that names both.
	Text string
}

func (p *Policy) validate() error {
	for _, a := range []*Action{&p.Spam, &p.Listed, &p.Suspected, &p.Bulk, &p.Grey} {
		if *a == "" {
			*a = Header
		}
		if _, ok := severity[*a]; !ok {
			return fmt.Errorf("milter: policy %q: action %.20q, want none, header, quarantine, tempfail or reject", p.Domain, *a)
		}
	}
	switch {
	case p.Confidence < 0 || p.Confidence > 100:
		return fmt.Errorf("milter: policy %q: confidence %d, want 0 to 100", p.Domain, p.Confidence)
	case len(p.Text) > 400 || strings.ContainsFunc(p.Text, func(c rune) bool { return c < ' ' || c > '~' }):
		return fmt.Errorf("milter: policy %q: text of %d bytes, want at most 400 of printable ASCII", p.Domain, len(p.Text))
	}
	var err error
	if p.Domain, err = asciiDomain(strings.Trim(p.Domain, ".")); err != nil {
		return fmt.Errorf("milter: policy %q: %w", p.Domain, err)
	}
	return nil
}

// asciiDomain returns a domain in lower case and ASCII, as most mail servers send it. A domain
// without an ASCII form is returned in lower case with the error.
func asciiDomain(domain string) (string, error) {
	for i := range len(domain) {
		if domain[i] >= 0x80 {
			name, err := idna.Lookup.ToASCII(domain)
			if err != nil {
				return strings.ToLower(domain), err
			}
			return name, nil
		}
	}
	return strings.ToLower(domain), nil
}

// domainOf returns the domain of a recipient in the form of asciiDomain. A client may end it with a dot: mail servers
// deliver to the same mailbox.
func domainOf(recipient string) string {
	domain, _ := asciiDomain(strings.TrimSuffix(recipient[strings.LastIndexByte(recipient, '@')+1:], "."))
	return domain
}

// classify returns the message's class for this domain.
func (p *Policy) classify(f *findings) Class {
	v := &f.verdict
	threshold := p.Threshold
	if threshold == 0 {
		threshold = v.Threshold
	}
	switch {
	case f.white != nil || v.Whitelisted != "":
		return ClassWhite
	case v.Spam() && v.Confidence >= p.Confidence:
		return ClassSpam
	case f.black != nil:
		return ClassListed
	case v.Spam() || v.Class == bulkhead.ClassSuspected:
		return ClassSuspected
	case threshold > 0 && v.Sightings >= threshold:
		return ClassBulk
	case f.grey != nil:
		return ClassGrey
	}
	return ClassNone
}

func (p *Policy) action(c Class) Action {
	switch c {
	case ClassSpam:
		return p.Spam
	case ClassListed:
		return p.Listed
	case ClassSuspected:
		return p.Suspected
	case ClassBulk:
		return p.Bulk
	case ClassGrey:
		return p.Grey
	}
	return Header
}

// policies finds the policy of a recipient.
type policies map[string]*Policy // by domain; "" for all others

func newPolicies(all []Policy) (policies, error) {
	p := make(policies)
	for _, policy := range all {
		if err := policy.validate(); err != nil {
			return nil, err
		}
		if p[policy.Domain] != nil {
			return nil, fmt.Errorf("milter: two policies for domain %q", policy.Domain)
		}
		p[policy.Domain] = &policy
	}
	if p[""] == nil {
		fallback := Policy{}
		if err := fallback.validate(); err != nil {
			return nil, err
		}
		p[""] = &fallback
	}
	return p, nil
}

// of returns the policy of the recipient's domain or of the nearest parent.
func (p policies) of(recipient string) *Policy {
	for domain := domainOf(recipient); domain != ""; {
		if policy := p[domain]; policy != nil {
			return policy
		}
		_, domain, _ = strings.Cut(domain, ".")
	}
	return p[""]
}

// decide returns the class and the action for all recipients together. A mail server answers once
// for a message, so the mildest action of any recipient wins. No recipient loses mail that their
// own policy lets through.
func (p policies) decide(recipients []string, f *findings) (*Policy, Class, Action) {
	if len(recipients) == 0 {
		recipients = []string{""} // the policy of all others
	}
	var policy *Policy
	var class Class
	var action Action
	for _, r := range recipients {
		candidate := p.of(r)
		c := candidate.classify(f)
		if a := candidate.action(c); policy == nil || severity[a] < severity[action] {
			policy, class, action = candidate, c, a
		}
	}
	return policy, class, action
}

// reply returns the text for the sender of a refused message.
func (p *Policy) reply(class Class, reason string) string {
	text := p.Text
	if text == "" {
		text = "message refused as {class}: {reason}"
	}
	return strings.NewReplacer("{class}", string(class), "{reason}", reason).Replace(text)
}
