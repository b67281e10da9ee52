package real

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A Mail is one message as a mail server receives it for one recipient.
type Mail struct {
	Raw       []byte     // header and body, lines ending in CRLF
	Client    netip.Addr // of the SMTP connection
	Helo      string
	Sender    string // of the envelope, without angle brackets
	Recipient string
	// DKIM lists the domains whose signatures are valid. SPF is the envelope's domain if it
	// lets the client send, else "".
	DKIM []string
	SPF  string
	// The fields and the text that a mail program shows, for forwards in a text.
	From, Subject, Date, Text string
	MessageID                 string // without angle brackets
}

// A Group is a name under which deliveries are counted, such as the kind "identical" or the
// sender "hacked".
type Group struct{ Dimension, Name string }

// A Delivery is one copy of a message for one user, and what that user will do. All of it is
// drawn before anything is judged.
type Delivery struct {
	At       time.Duration // since the plan begins
	Spam     bool
	Kind     string // of spam or of genuine mail
	Groups   []Group
	Campaign int // numbered from 0; each genuine mailing is a campaign
	Site     int
	User     int
	To       string // the user's address
	// Reports is set if the user reports the mail unless it was called spam. Objects is set if
	// the user says that it is none, if it was called spam and reached the user.
	Reports, Objects bool
	Delay            time.Duration // until the user does so

	seed uint64
	make func(r *rand.Rand, d *Delivery) Mail
}

// Mail makes the message, the same one on each call.
func (d *Delivery) Mail() Mail { return d.make(rand.New(rand.NewPCG(d.seed, 0x6d61696c)), d) }

// A Door is a front door through which a site asks the node.
type Door string

// The doors.
const (
	Milter       Door = "milter"
	Rspamd       Door = "rspamd"       // the plugin's HTTP requests
	SpamAssassin Door = "spamassassin" // likewise
	Dccifd       Door = "dccifd"
)

// Doors lists all doors.
var Doors = []Door{Milter, Rspamd, SpamAssassin, Dccifd}

// A Way is how a user's vote reaches the node.
type Way string

// The ways.
const (
	Dovecot     Way = "dovecot"     // the script that "bulkhead setup" writes, with the stored mail
	Command     Way = "command"     // bulkhead report
	Thunderbird Way = "thunderbird" // attached to a mail to the abuse address
	Gmail       Way = "gmail"       // forwarded in the text, likewise
	Outlook     Way = "outlook"     // likewise
	AppleMail   Way = "apple"       // likewise
	Maildir     Way = "maildir"     // attached, to the Maildir of "bulkhead abuse"
	LearnRspamd Way = "rspamc"      // the plugin's request when rspamc learns
	LearnSpamd  Way = "sa-learn"    // the plugin's request when SpamAssassin learns
	Page        Way = "page"        // a vote on an entry that the node remembers
	PyzorReport Way = "pyzor"       // the Pyzor client, with an account of the user's own
	noWay       Way = ""            // no vote
)

// Ways lists the ways of users behind each door, the most frequent ones several times.
var Ways = map[Door][]Way{
	Milter: {Dovecot, Dovecot, Dovecot, Dovecot, Dovecot, Thunderbird, Gmail, Outlook, AppleMail, Maildir, Command,
		Page},
	Rspamd:       {Dovecot, Dovecot, LearnRspamd, LearnRspamd, LearnRspamd, LearnRspamd, Maildir, Page},
	SpamAssassin: {Dovecot, Dovecot, LearnSpamd, LearnSpamd, LearnSpamd, PyzorReport, Command},
	Dccifd:       {Dovecot, Dovecot, Dovecot, Command, Maildir, PyzorReport},
}

// A User has a mailbox.
type User struct {
	Name string
	Way  Way
	// Rate is the share of the unflagged spam that the user reports.
	Rate float64
}

// A Site is an organisation with users behind one door.
type Site struct {
	Domain string
	Door   Door
	// Rejects is set if the site refuses what is called spam, so that no user sees it.
	Rejects bool
	Users   []User
}

// Address returns the address of a user.
func (s *Site) Address(user int) string { return s.Users[user].Name + "@" + s.Domain }

// A Plan is a list of timed deliveries to the users of sites.
type Plan struct {
	Name       string
	Sites      []Site
	Deliveries []Delivery // in order of time
	Campaigns  int
	// Signed is set if the mail is signed with keys of this package's resolver; otherwise the
	// mail server's Authentication-Results say what was verified.
	Signed bool
}

// AfterReport returns the share of the copies of campaigns that are delivered after a reader has
// reported one of their campaign: what a program could catch that knows nothing but copies.
func (p *Plan) AfterReport() float64 {
	reported := map[int]time.Duration{}
	for i := range p.Deliveries {
		d := &p.Deliveries[i]
		if at, ok := reported[d.Campaign]; d.Spam && d.Reports && (!ok || d.At+d.Delay < at) {
			reported[d.Campaign] = d.At + d.Delay
		}
	}
	after, spam := 0, 0
	for i := range p.Deliveries {
		d := &p.Deliveries[i]
		if !d.Spam {
			continue
		}
		spam++
		if at, ok := reported[d.Campaign]; ok && d.At > at {
			after++
		}
	}
	return float64(after) / float64(max(1, spam))
}

// An Answer is what a door said of a delivery.
type Answer struct {
	Class bulkhead.Class
	// Partial is set for a door that has no class for good senders. dccifd has none for
	// suspected mail either.
	Partial bool
	// Reason is the first reason in words, and Rule the rule that decided; "" if the door gives none.
	Reason, Rule string
	// Score is the score of words and style, from -1 to 1. It is 0 unless [Options].Answered is set.
	Score float64
}
