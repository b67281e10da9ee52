package real

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/lab/stream"
)

// A Topology is which processes run.
type Topology string

// The topologies.
const (
	OneNode    Topology = "one"   // one node
	ThreeNodes Topology = "three" // three nodes that share, each with a third of the sites
	FiveNodes  Topology = "five"  // five nodes that share votes, words and style, each with a fifth of the sites
	Edge       Topology = "edge"  // an edge in front of one node
)

// Topologies lists all of them.
var Topologies = []Topology{OneNode, ThreeNodes, FiveNodes, Edge}

const (
	clockStep = 10 * time.Minute // by which the clocks may be behind a plan, within half a day
	halfDay   = 12 * time.Hour   // after which rules count a delivery otherwise
	meshStep  = time.Hour        // time of a plan within which nodes share
	meshTime  = 50 * time.Millisecond
)

// A cluster is the processes that judge a plan.
type cluster struct {
	plan     *Plan
	all      []*process
	doors    []*process // site i asks doors[i%len(doors)]
	resolver *resolver
	scores   bool // answers have scores

	began   time.Time
	moved   time.Duration // of all clocks
	shared  time.Duration // time of the plan when nodes have shared last
	pending bool          // votes were cast since
}

// newCluster starts the processes.
func newCluster(ctx context.Context, program string, plan *Plan, o Options) (_ *cluster, err error) {
	c := &cluster{plan: plan, scores: o.Answered != nil}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.resolver, err = newResolver(ownIP()); err != nil {
		return nil, err
	}
	names := map[Topology][]string{OneNode: {"node"}, ThreeNodes: {"hub", "second", "third"},
		FiveNodes: {"hub", "second", "third", "fourth", "fifth"}, Edge: {"node", "edge"}}[o.Topology]
	if names == nil {
		return nil, fmt.Errorf("real: no topology %q", o.Topology)
	}
	for _, name := range names {
		p, err := newProcess(name, program, o.Dir, c.resolver.address, plan.Signed)
		if err != nil {
			return nil, err
		}
		config := policies(plan)
		if name != "edge" {
			config += o.Config + "[learn]\n" + o.Learn
		}
		if o.Topology == FiveNodes {
			config += "share = true\n"
		}
		if err := p.configure(config); err != nil {
			return nil, err
		}
		c.all = append(c.all, p)
	}
	c.doors = c.all
	if err := c.members(ctx, o.Dir); err != nil {
		return nil, err
	}
	switch o.Topology {
	case ThreeNodes, FiveNodes:
		err = c.share(ctx)
	case Edge:
		c.doors = c.all[1:]
		err = c.front(ctx)
	default:
		err = c.all[0].start(ctx)
	}
	if err != nil {
		return nil, err
	}
	for _, p := range c.doors {
		if err := p.setUpDovecot(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.accounts(ctx); err != nil {
		return nil, err
	}
	return c, c.beginWithWeek(ctx)
}

// beginWithWeek moves all clocks to the next beginning of a week's generation, where the simulator begins.
// Rules count the days and weeks of deliveries, so a plan that began at the time of the run would have other
// answers in each run.
func (c *cluster) beginWithWeek(ctx context.Context) error {
	const week = 7 * 24 * 60 * 60
	now := time.Now()
	begin := time.Unix((now.Unix()/week+1)*week, 0)
	for _, p := range c.all {
		if err := p.advance(ctx, begin.Sub(now)); err != nil {
			return err
		}
	}
	c.began = now
	return nil
}

// members makes all processes members of the network of the simulator. The secret determines which words
// of a text its signatures and scores rest on, so with another one a plan would have other answers.
func (c *cluster) members(ctx context.Context, dir string) error {
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte(hex.EncodeToString(stream.NetworkKey[:])), 0o600); err != nil {
		return err
	}
	for _, p := range c.all {
		text, err := p.run(ctx, nil, "network", "new", "--json", "--data", p.data(), "--secret-file", secret)
		if err != nil {
			return err
		}
		var info struct{ Key string }
		if err := json.Unmarshal([]byte(text), &info); err != nil {
			return err
		}
		p.key = info.Key
	}
	return nil
}

// policies configures the milter for the sites that refuse spam.
func policies(plan *Plan) string {
	var b strings.Builder
	for _, s := range plan.Sites {
		if s.Rejects && s.Door == Milter {
			fmt.Fprintf(&b, "[[milter.policy]]\ndomain = %q\nspam = \"reject\"\n", s.Domain)
		}
	}
	return b.String()
}

// share makes the nodes members of one network, peers with full weight.
func (c *cluster) share(ctx context.Context) error {
	ip := ownIP()
	port, err := freePort(ip)
	if err != nil {
		return err
	}
	address := fmt.Sprintf("%s:%d", ip, port)
	for i, p := range c.all {
		mesh := fmt.Sprintf("mode = \"hub\"\nlisten = %q\n", address)
		if i > 0 {
			mesh = fmt.Sprintf("mode = \"join\"\nservers = [%q]\n", address)
		}
		if err := p.configure(fmt.Sprintf("[mesh]\npublish_interval = %q\nheartbeat = \"1s\"\n%s", meshTime,
			mesh)); err != nil {
			return err
		}
	}
	for _, p := range c.all {
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	for i, p := range c.all {
		for k, other := range c.all {
			if i == k {
				continue
			}
			peer := map[string]any{"key": other.key, "name": other.name, "weight": 1}
			if err := p.administer(ctx, "/v1/peers", peer, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// front starts a node and the edge in front of it.
func (c *cluster) front(ctx context.Context) error {
	node, edge := c.all[0], c.all[1]
	edge.edge = true
	if err := node.start(ctx); err != nil {
		return err
	}
	var account struct{ Token string }
	if err := node.administer(ctx, "/v1/users", map[string]string{"name": "edge", "role": "trusted"},
		&account); err != nil {
		return err
	}
	file := filepath.Join(edge.dir, "token")
	if err := os.WriteFile(file, []byte(account.Token), 0o600); err != nil {
		return err
	}
	if err := edge.configure(fmt.Sprintf("[upstream]\nurl = %q\ntoken_file = %q\n", node.http, file)); err != nil {
		return err
	}
	return edge.start(ctx)
}

// accounts makes the accounts of those who report with a Pyzor client. An edge has none: there
// the client is anonymous.
func (c *cluster) accounts(ctx context.Context) error {
	for i := range c.plan.Sites {
		s, p := &c.plan.Sites[i], c.of(i)
		for u := range s.Users {
			if s.Users[u].Way == PyzorReport && !p.edge {
				if err := p.addPyzorUser(ctx, s.Address(u)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// of returns the process that a site asks.
func (c *cluster) of(site int) *process { return c.doors[site%len(c.doors)] }

// turn moves the clocks to a time of the plan.
func (c *cluster) turn(ctx context.Context, at time.Duration) error {
	if c.pending && len(c.doors) > 1 && at >= c.shared+meshStep {
		c.pending, c.shared = false, at
		select {
		case <-time.After(3 * meshTime):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	by := at - c.moved - time.Since(c.began)
	if by < clockStep && at/halfDay == (at-by)/halfDay {
		return nil
	}
	for _, p := range c.all {
		if err := p.advance(ctx, by); err != nil {
			return err
		}
	}
	c.moved += by
	return nil
}

func (c *cluster) deliver(ctx context.Context, d *Delivery, m *Mail) (Answer, error) {
	c.resolver.allow(m)
	s, p := &c.plan.Sites[d.Site], c.of(d.Site)
	if !c.scores {
		return p.deliver(ctx, s.Door, m, s.Rejects)
	}
	v, err := p.check(ctx, m)
	if err != nil && !errors.As(err, new(refusal)) { // too little text to identify the mail
		return Answer{}, err
	}
	a, err := p.deliver(ctx, s.Door, m, s.Rejects)
	a.Score, a.Rule = v.Learned, v.Rule
	return a, err
}

func (c *cluster) vote(ctx context.Context, d *Delivery, m *Mail, a Answer, vote bulkhead.Vote) error {
	s := &c.plan.Sites[d.Site]
	c.pending = true
	return c.of(d.Site).report(ctx, s.Users[d.User].Way, d.To, m, stored(m, a, s.Door), vote)
}

// close stops the processes, the doors first.
func (c *cluster) close() error {
	for i := len(c.all) - 1; i >= 0; i-- {
		c.all[i].stop()
	}
	if c.resolver != nil {
		c.resolver.close()
	}
	return nil
}
