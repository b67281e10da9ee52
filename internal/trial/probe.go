package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/units"
)

// A Row is the finding about one thing.
type Row struct {
	Name    string `json:"name"` // a door by its key in [listen], or "store", "clock", "peer NAME", "broker SERVER"
	Address string `json:"address,omitempty"`
	OK      bool   `json:"ok"`
	Found   string `json:"found"`          // the answer, or the problem
	Mend    string `json:"mend,omitempty"` // remedy; "" if there is no problem
}

// A Prober asks a node. All fields except Node may be zero. Only one goroutine may use it.
type Prober struct {
	Node    *admin.Client
	Timeout time.Duration // for each door; 0 means 5 s

	sigs []bulkhead.Signature // of the test message
}

// A fault is a failure with a remedy.
type fault struct{ what, mend string }

func (f *fault) Error() string { return f.what }

// Doors asks through every open door of the node, and then examines the state that the node
// reports. It returns an error only if the node does not answer at all.
func (p *Prober) Doors(ctx context.Context) ([]Row, error) {
	if p.Timeout == 0 {
		p.Timeout = 5 * time.Second
	}
	state, err := p.Node.Node(ctx)
	if err != nil {
		return nil, err
	}
	signed, err := p.Node.MessageSignatures(ctx, []byte(Message))
	if err != nil {
		return nil, err
	}
	p.sigs = signed.Signatures
	var rows []Row
	for _, d := range state.Doors {
		rows = append(rows, p.door(ctx, d))
	}
	rows = append(rows, store(state))
	for _, row := range []*Row{disk(state), clock(state, time.Now()), held(state), standby(state.Standby)} {
		rows = appendRow(rows, row)
	}
	rows = append(rows, shards(state.Shards, time.Now())...)
	for _, row := range []*Row{joined(state.Joined), careful(state.Judgement), words(state.Learned)} {
		rows = appendRow(rows, row)
	}
	rows = append(rows, missing(state)...)
	rows = appendRow(rows, relay(state))
	rows = append(rows, p.lists(ctx)...)
	rows = append(rows, p.peers(ctx)...)
	return append(rows, p.brokers(ctx)...), nil
}

// appendRow appends a row that is not nil.
func appendRow(rows []Row, row *Row) []Row {
	if row == nil {
		return rows
	}
	return append(rows, *row)
}

// asks returns the probe of each door by the door's name.
func (p *Prober) asks() map[string]func(context.Context, string) (string, error) {
	return map[string]func(context.Context, string) (string, error){
		"http": p.http, "razor2": p.razor2, "razor_helper": p.razorHelper, "pyzor": p.pyzor, "pyzor_helper": p.pyzorHelper,
		"dcc": p.dcc, "dccifd": p.dccifd, "fuzzy": p.fuzzy, "milter": p.milter, "policy": p.policy, "dnsbl": p.dnsbl,
	}
}

func (p *Prober) door(ctx context.Context, d admin.Door) Row {
	row := Row{Name: d.Name, Address: d.Address}
	ask, ok := p.asks()[d.Name]
	if !ok {
		row.Found, row.Mend = "this program does not know the door", "use the program of the node's version"
		return row
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	found, err := ask(ctx, config.Reachable(d.Address))
	if err == nil {
		row.OK, row.Found = true, found
		return row
	}
	row.Found, row.Mend = err.Error(), mend(d.Name, err)
	return row
}

// mend returns a remedy for an error.
func mend(door string, err error) string {
	var f *fault
	var timeout net.Error
	switch {
	case errors.As(err, &f):
		return f.mend
	case errors.Is(err, syscall.ECONNREFUSED):
		return "no program listens there: is the node in another network namespace or container, or the port " +
			"forwarded elsewhere?"
	case errors.Is(err, fs.ErrPermission):
		return "this user may not open the socket: run doctor as a user who may, or add the mail server's user to " +
			"the group bulkhead"
	case errors.Is(err, fs.ErrNotExist):
		return "the socket's file is gone: restart the node; a mail server in a chroot sees only what lies below that"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer: a firewall, a limit ([limits]), or a node that is too busy; its log says which"
	case errors.Is(err, bulkhead.ErrUnauthorised), errors.Is(err, bulkhead.ErrForbidden):
		return "the door wants an account: bulkhead user add NAME, and give its token or secret to the client"
	}
	return "see docs/protocols/" + strings.NewReplacer("pyzor_helper", "pyzor", "razor_helper", "razor2").Replace(door) +
		".md and the node's log"
}

// unrecognised returns the error for a door that answers but does not know the test message.
func unrecognised(got string) error {
	return &fault{"it answers, but does not know the test message: " + got,
		"a node before this version does not know it; else another program has the port, or the mail was changed on its way"}
}

// store reports whether the node accepts reports and its state is complete.
func store(s *admin.NodeState) Row {
	row := Row{Name: "store", OK: true, Found: "reports are taken"}
	switch {
	case s.Standby != nil && s.Standby.Role == "second":
		row.Found = "votes are refused: this node follows another one"
	case s.ReadOnly != "":
		row.OK, row.Found, row.Mend = false, "read-only: "+s.ReadOnly,
			"make room on the disk, or mend it; the node goes on by itself"
		if s.Journal != nil && s.Journal.Problem != "" {
			row.Mend = "see that the servers of [journal] run and keep the stream, or do what is said there; the node goes " +
				"on by itself (docs/standby.md)"
		}
	case len(s.Doubts) > 0:
		row.OK, row.Found, row.Mend = false, units.Plural(len(s.Doubts), "part")+
			" in doubt since a damaged store was salvaged", "bulkhead doctor --stored"
	}
	return row
}

// missing reports the parts of the data folder that were missing when the node started.
func missing(s *admin.NodeState) (rows []Row) {
	for _, part := range s.Missing {
		rows = append(rows, Row{Name: "data folder", Found: part + " was missing when the node started, and began anew",
			Mend: "find out who removed it; to have it back, stop the node, put it back from a copy and start again"})
	}
	return rows
}

// maxLag is the time in seconds for which a standby may lack entries.
const maxLag = 60

// standby reports whether the second node of a pair follows the first; nil for a node that is alone.
func standby(s *admin.Standby) *Row {
	if s == nil || s.Address == "" {
		return nil // no node was paired yet
	}
	row := &Row{Name: "standby", Address: s.Address, OK: s.Connected && s.Age < maxLag,
		Found: fmt.Sprintf("%s node of a pair, term %d; the standby lacks %d entries", s.Role, s.Term, s.Lag)}
	switch {
	case row.OK:
	case s.Copying:
		row.Found, row.Mend = "the whole state is being copied", "wait; nothing can take over until then"
	case s.Connected:
		row.Mend = "the standby is too slow: its disk or the network"
	case s.Role == "second":
		row.Found, row.Mend = "the first node is not followed: "+s.Problem,
			"if the first node is dead, run \"bulkhead promote\" here"
	default:
		row.Found, row.Mend = strings.TrimSuffix("the standby is away: "+s.Problem, ": "),
			"start its node, or pair another one: \"bulkhead standby invite HOST:PORT\""
	}
	return row
}

// maxUnread is how long an edge may go without a reading of the map of the shards.
const maxUnread = time.Minute

// shards reports whether an edge follows the map of the shards, and which shards do not answer; nil on another node.
func shards(s *admin.Shards, now time.Time) (rows []Row) {
	if s == nil {
		return nil
	}
	row := Row{Name: "shards", OK: s.Version > 0 && (s.Problem == "" || now.Sub(s.Read) < maxUnread),
		Found: fmt.Sprintf("version %d of the map of %s, with %s", s.Version, s.Site, units.Plural(len(s.Shards), "shard"))}
	switch {
	case row.OK:
	case s.Version == 0:
		row.Found = "there is no map of " + s.Site + ": checks are answered unknown, and reports wait: " + s.Problem
		row.Mend = "make the map with \"bulkhead shard add\", or mend the servers of [shards]"
	default:
		row.Found += ", which cannot be read: " + s.Problem
		row.Mend = "mend the servers of [shards]; until then the edge goes on with the map that it has"
	}
	rows = append(rows, row)
	for _, x := range s.Shards {
		if !x.Up {
			rows = append(rows, Row{Name: "shard", Address: x.Name, Found: fmt.Sprintf("it does not answer at %s; %s for it",
				strings.Join(x.URLs, " "), units.Plural(x.Waiting, "report")+" wait"),
				Mend: "start its node, or promote its standby; \"bulkhead shard drain " + x.Name + "\" moves its mailboxes"})
		}
	}
	return rows
}

// held reports that the clock is implausible, so that nothing ages; nil if it is plausible.
func held(s *admin.NodeState) *Row {
	a := s.Ageing
	if a == nil {
		return nil
	}
	clock, newest := a.Clock.UTC().Format(time.RFC3339), a.Newest.UTC().Format(time.RFC3339)
	return &Row{
		Name:  "ageing",
		Found: fmt.Sprintf("the clock shows %s and the newest record is of %s: no generation expires", clock, newest),
		Mend: "if the clock is wrong, set it right; if this machine was really off since " + newest +
			", run \"bulkhead clock confirm\"",
	}
}

// fewVotes is the number of votes that say nothing of the share that was joined.
const fewVotes = 20

// joined reports the share of votes whose deliveries the node found; nil if it does not look for
// them, or saw no vote.
func joined(j *admin.Joined) *Row {
	if j == nil {
		return nil
	}
	found := j.MessageID + j.Text + j.Near
	all := found + j.Unknown
	if all == 0 {
		return nil
	}
	row := &Row{Name: "votes", OK: true, Found: fmt.Sprintf("%d of %d were joined with their deliveries", found, all)}
	if all >= fewVotes && 2*found < all {
		// It is no fault: a node may take reports alone.
		row.Found += ". Votes count for the network and sender only of mail that the node saw delivered: " +
			"let all incoming mail pass the milter or a plugin, and report on this node"
	}
	return row
}

// careful reports how careful the judgement is; nil on an edge.
func careful(j *admin.Judgement) *Row {
	if j == nil {
		return nil
	}
	return &Row{Name: "judgement", OK: true,
		Found: fmt.Sprintf("wanted_lost is %g: step %d of %d, and the first asks for the most votes", j.WantedLost, j.Step,
			j.Steps)}
}

// words reports what the node has learnt of words and style; nil if it does not learn. A node that has
// learnt too little is not at fault.
func words(l *admin.Learned) *Row {
	if l == nil {
		return nil
	}
	row := &Row{Name: "words", OK: true,
		Found: fmt.Sprintf("learnt from %d reported and %d delivered messages", l.Reported, l.Delivered)}
	switch {
	case l.Delivered == 0:
		row.Found += ". Nothing is learnt unless whole mail passes the milter or a plugin: a digest has no words"
	case !l.Judges:
		row.Found += ", too few reports to judge by words alone"
	}
	if t := l.Together; t != nil {
		row.Found += fmt.Sprintf("; shares the counts of %s, and learns from %s", units.Plural(t.Taught, "word"),
			units.Plural(len(t.Peers), "peer"))
		for _, p := range t.Peers {
			if p.LeftOut {
				row.OK = false
				row.Found += fmt.Sprintf(". Peer %.16s is left out: its counts alone would condemn %d of the latest %s", p.Key,
					p.Hits, units.Plural(p.Tried, "wanted message"))
				row.Mend = "ask the operator of the peer what is reported there, or evict it: bulkhead peer evict " + p.Key
			}
		}
	}
	return row
}

// relay reports a proxy that forwards requests without identifying itself; nil if there is none.
func relay(s *admin.NodeState) *Row {
	if s.Relayed == nil {
		return nil
	}
	return &Row{Name: "http",
		Found: fmt.Sprintf("a request from this machine named the host %.80q, and no proxy said that it had passed it on",
			*s.Relayed),
		Mend: "if a proxy does (HAProxy as it comes), give it \"option forwardfor\"; if a tunnel or forwarder " +
			"does, set anonymous_check and anonymous_report in [http] to \"none\"; " +
			"a program of this machine should name localhost"}
}

// leastRoom is roughly the space that a journal takes between two snapshots.
const leastRoom = 64 << 20

// disk reports whether there is space for the next snapshot; nil if the node does not know.
func disk(s *admin.NodeState) *Row {
	if s.Disk == nil {
		return nil
	}
	row := &Row{Name: "disk", OK: true, Found: fmt.Sprintf("%s free, a snapshot takes up to %s",
		units.ByteSize(s.Disk.Free), units.ByteSize(s.Disk.Needed))}
	if least := 2*s.Disk.Needed + leastRoom; s.Disk.Free < least {
		row.Found += fmt.Sprintf("; two of them and a journal up to %s", units.ByteSize(least))
		row.OK, row.Mend = false,
			"make room in the file system of the data folder, or move the folder: without room, reports are refused"
	}
	return row
}

// clock compares the node's clock with this machine's clock, and with the times at which the node
// has begun generations. It returns nil if the node does not report its time.
func clock(s *admin.NodeState, now time.Time) *Row {
	if s.Now.IsZero() {
		return nil
	}
	row := &Row{Name: "clock", OK: true, Found: "as this machine's"}
	const mend = "set the clocks, by NTP: what is counted ages by them"
	var newest time.Time
	for _, b := range s.Books {
		for _, g := range b.Generations {
			if g.Start.After(newest) {
				newest = g.Start
			}
		}
	}
	switch apart := s.Now.Sub(now).Round(time.Second); {
	case newest.Sub(s.Now) > ahead:
		row.OK, row.Found, row.Mend = false,
			fmt.Sprintf("it was set back: the node has counted until %s, and takes it for %s",
				newest.UTC().Format(time.DateTime), s.Now.UTC().Format(time.DateTime)), mend
	case apart > skew || apart < -skew:
		word := "ahead of"
		if apart < 0 {
			word = "behind"
		}
		row.OK, row.Found, row.Mend = false, fmt.Sprintf("the node's is %v %s this machine's", apart.Abs(), word), mend
	}
	return row
}

// ahead is the time before its beginning at which a generation may already exist.
const ahead = 15 * time.Minute

// oldList is the age from which a list may no longer be maintained.
const oldList = 30 * 24 * time.Hour

// lists reports whether the node's lists match their files. It returns no rows without the right to
// see them.
func (p *Prober) lists(ctx context.Context) (rows []Row) {
	all, err := p.Node.Lists(ctx)
	if err != nil {
		return nil
	}
	for _, l := range all {
		row := Row{Name: "list " + l.Name, OK: true,
			Found: fmt.Sprintf("%d entries of %s", l.Entries, l.Updated.UTC().Format(time.DateOnly))}
		switch {
		case l.Unknown:
			row.OK, row.Found, row.Mend = false, "its file cannot be read, and nothing is found in it: "+l.Fault,
				"bulkhead list build it again, or put its file back; the node takes it over at once"
		case l.Fault != "":
			row.OK, row.Found, row.Mend = false, "its file cannot be read: "+l.Fault,
				"bulkhead list build it again; until then the node goes on with what it had"
		case l.Entries == 0 && l.Allowed == 0:
			row.OK, row.Found, row.Mend = false, "it is empty",
				"bulkhead list build; an empty source of lists also looks like this"
		case time.Since(l.Updated) > oldList:
			row.Found += "; whatever builds it may have stopped"
		}
		rows = append(rows, row)
	}
	return rows
}

// skew is the tolerated difference between clocks. Beyond five minutes signed Pyzor requests are
// refused, and the generations of peers no longer begin together.
const skew = time.Minute

// peers reports whether messages from each peer arrive. It returns no rows without an
// administrator's token.
func (p *Prober) peers(ctx context.Context) (rows []Row) {
	peers, err := p.Node.Peers(ctx)
	if err != nil {
		return nil // no mesh, or no administrator's token
	}
	if n, err := p.Node.Network(ctx); err == nil && n.Twin {
		rows = append(rows, Row{Name: "key", Found: "another server uses this node's key, so peers count neither of the two",
			Mend: "a disk or data folder was copied: stop the copy, and give it an empty data folder; then run " +
				"\"bulkhead peer weigh\" for this node at its peers"})
	}
	for _, one := range peers {
		name := cmp.Or(one.Name, one.Key)
		row := Row{Name: "peer " + name, OK: true, Found: "heard"}
		switch {
		case one.Expels:
			row.OK, row.Found = false, "expelled by "+name
			row.Mend = "to come back, ask for an invitation and run \"bulkhead join\"; to end it, run \"bulkhead leave\""
		case one.Network != "":
			row.OK, row.Found, row.Mend = false, "is in another network",
				"give both nodes one network secret: bulkhead network show"
		case one.Quarantine != "":
			row.OK, row.Found, row.Mend = false, "in quarantine: "+one.Quarantine, "bulkhead peer list, and weigh or evict it"
		case one.Heard.IsZero() && one.Weight == 0:
			row.Found = "never heard, and not counted" // a peer that is only a hub, or that may only ask for an aggregate
		case one.Heard.IsZero():
			row.OK, row.Found, row.Mend = false, "never heard", "is it running, are both keys added, is the port open?"
		case one.Silent > 0:
			row.OK, row.Found, row.Mend = false, fmt.Sprintf("silent for %.0f s", one.Silent),
				"is it running, is the way there open?"
		case one.Lag > skew.Seconds() || one.Lag < -skew.Seconds():
			row.OK, row.Found, row.Mend = false, fmt.Sprintf("its clock and ours are %.0f s apart", one.Lag),
				"set the clocks, by NTP"
		case one.Error != "":
			row.Found = "heard; the last refusal: " + one.Error
		}
		rows = append(rows, row)
	}
	return rows
}

// brokers reports on the brokers of the network, and on the sum that the node publishes. It returns no rows without an
// administrator's token.
func (p *Prober) brokers(ctx context.Context) (rows []Row) {
	n, err := p.Node.Network(ctx)
	if err != nil {
		return nil // no mesh, or no administrator's token
	}
	for _, b := range n.Brokers {
		rows = append(rows, broker(&b))
	}
	if n.Aggregate != nil {
		rows = append(rows, sum(n.Aggregate))
	}
	return rows
}

// broker reports whether the node is connected to a hub or NATS server, and what is wrong there.
func broker(b *admin.Broker) Row {
	row := Row{Name: "broker " + b.Server, OK: true, Found: "connected"}
	switch {
	case !b.Connected:
		row.OK, row.Found = false, "not connected"
		if b.Error != "" {
			row.Found += ": " + b.Error
		}
		row.Mend = "is it running, is the way there open, does it admit this node? The node tries on by itself"
	case b.Trouble != "":
		row.OK, row.Found = false, "connected, with the trouble "+b.Trouble
		if b.Error != "" {
			row.Found += ": " + b.Error
		}
		row.Mend = "the node's log has the reason; docs/mesh.md explains it under \"What may be wrong\""
	}
	return row
}

// sum reports whether the aggregate that the node publishes is received, and has members.
func sum(a *admin.Aggregate) Row {
	row := Row{Name: "sum", OK: true, Found: fmt.Sprintf("of %s, published",
		units.Plural(a.Organisations, "organisation"))}
	switch {
	case a.Fault != "":
		row.OK, row.Found = false, a.Fault
		row.Mend = "servers in [aggregate]: is the hub there running, is the sum's key (bulkhead network show) on " +
			"its list of peers, and that hub on this node's?"
	case a.Members == 0:
		row.OK, row.Found, row.Mend = false, "no other node is in it",
			"members in [aggregate] name peers of weight 1: bulkhead peer list, bulkhead peer weigh KEY 1"
	}
	return row
}
