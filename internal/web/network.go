package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
	"rsc.io/qr"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/consequence"
)

// peers returns the page of the nodes with which this node shares.
func (s *Site) peers(v *view) (g.Node, error) {
	n, err := v.node.Network(v.Context())
	if absent(err) {
		return alone(v)
	}
	if err != nil {
		return nil, err
	}
	invitations, err := v.node.Invitations(v.Context())
	if err != nil && !absent(err) {
		return nil, err
	}
	return g.Group{
		g.If(n.Twin, h.P(h.Class("alarm"), h.Role("alert"), g.Text(twinText))),
		peerMap(n, v.status.Name, v.status.Now),
		h.Section(h.H2(g.Text("Peers"), dim(n.Mode+", "+n.Role)),
			g.If(len(n.Peers) == 0, h.P(h.Class("dim"), g.Text("No peer yet. This node's key is "), h.Code(g.Text(n.Key)),
				g.Text("; bulkhead peer add KEY accepts what another publishes."))),
			g.If(len(n.Peers) > 0, table(g.Group{col("Peer"), col("State"), num("Weight"), num("Lag"), num("Missing"),
				num("Keys"), num("Memory"), num("Refused"), col("Actions")},
				g.Map(n.Peers, func(p admin.Peer) g.Node { return peerRow(&p, v.status.Now) }))), secretRow(n.Secret)),
		aggregateRow(n.Aggregate),
		invite(invitations, v.status.Now),
		h.Section(h.H2(g.Text("Brokers")), table(g.Group{col("Server"), col("State"), num("In"), num("Out")},
			g.Map(n.Brokers, func(b admin.Broker) g.Node {
				state := "connected"
				if !b.Connected {
					state = "not connected"
				}
				return h.Tr(rowHead(h.Code(g.Text(b.Server))),
					h.Td(g.Text(state), g.If(b.Error != "", dim(b.Error))), number(size(b.BytesIn)), number(size(b.BytesOut)))
			}))),
	}, nil
}

// alone returns the page of a node without peers: the map of the shards, if it is an edge of a divided site.
func alone(v *view) (g.Node, error) {
	state, err := v.node.Node(v.Context())
	if err != nil && !absent(err) {
		return nil, err
	}
	if err == nil && state.Shards != nil {
		return shards(state.Shards), nil
	}
	return h.P(h.Class("card"),
		g.Text("This node shares with no peer. Set mesh.mode in its configuration to share counts with others.")), nil
}

// shards describes the map of a divided site, as an edge of it uses the map.
func shards(m *admin.Shards) g.Node {
	detail := "There is no map yet: checks are answered \"unknown\", and reports wait. "
	if m.Version > 0 {
		detail = fmt.Sprintf("Version %d of %s, by %s: %s. ", m.Version, date(m.Changed), m.By, m.Change)
	}
	return h.Section(h.H2(g.Text("Shards"), dim("site "+m.Site)),
		g.If(m.Problem != "", h.P(h.Class("alarm"), h.Role("alert"), g.Text("The map cannot be read: "+m.Problem))),
		g.If(len(m.Shards) > 0, table(g.Group{col("Shard"), col("State"), num("Slots"), num("Reports that wait"),
			col("Addresses")},
			g.Map(m.Shards, func(s admin.Shard) g.Node {
				state, class := "answers", "good"
				if !s.Up {
					state, class = "does not answer", "bad"
				}
				return h.Tr(rowHead(g.Text(s.Name), g.If(s.Default, dim("default"))),
					h.Td(h.Span(h.Class("state "+class), g.Text(state))), number(count(uint64(s.Slots))),
					number(count(uint64(s.Waiting))), h.Td(h.Code(g.Text(strings.Join(s.URLs, " ")))))
			}))),
		h.P(h.Class("dim"), g.Text(detail), h.Code(g.Text("bulkhead shard")), g.Text(" changes the map.")))
}

// twinText is the alarm of a node whose key another server uses.
const twinText = "Another server uses this node's key: a copied disk or data folder. Peers count neither of the two. " +
	"Stop the copy, and give it an empty data folder; then weigh this node again at its peers."

// secretRow announces a change of the network's secret; it returns nothing if there is none.
func secretRow(s *admin.SecretChange) g.Node {
	if s == nil || s.Done {
		return nil
	}
	return h.P(
		g.Text(fmt.Sprintf("The network gets another secret at %s; %d of %d peers have fetched it here. Announced by ",
			s.At.UTC().Format(time.DateTime+" MST"), len(s.Fetched), len(s.Fetched)+len(s.Through)+len(s.Missing))),
		h.Code(g.Text(s.By)), g.Text(". "), h.Code(g.Text("bulkhead rekey --cancel")), g.Text(" takes it back."))
}

// aggregateRow describes the aggregate that the node publishes; it returns nothing if there is
// none.
func aggregateRow(a *admin.Aggregate) g.Node {
	if a == nil {
		return nil
	}
	return h.P(g.Text(fmt.Sprintf("This node publishes the sum of %d organisations (%s, %d members) under the key ",
		a.Organisations, size(a.Memory), a.Members)), h.Code(g.Text(a.Key)), g.If(a.Fault != "", dim(a.Fault)))
}

// behind returns the lag of a peer, once a message from it has arrived.
func behind(p *admin.Peer) string {
	if p.Heard.IsZero() {
		return "–"
	}
	return fmt.Sprintf("%.1f s", p.Lag)
}

// stateOf describes the state of a peer in words.
func stateOf(p *admin.Peer, now time.Time) (text, class string) {
	switch {
	case p.Expels:
		return "this node was expelled by it", "bad"
	case p.Network != "":
		return "in another network", "bad"
	case p.Quarantine != "":
		return "quarantined: " + p.Quarantine, "bad"
	case p.Heard.IsZero() && p.Weight == 0:
		return "not counted, never heard", "idle"
	case p.Heard.IsZero():
		return "never heard", "bad"
	case p.Silent > 0:
		return "silent, last heard " + age(p.Heard, now) + " ago", "bad"
	}
	return "heard " + age(p.Heard, now) + " ago", "good"
}

func peerRow(p *admin.Peer, now time.Time) g.Node {
	state, class := stateOf(p, now)
	refused := uint64(0)
	for _, n := range p.Refused {
		refused += n
	}
	name := nameOf(p)
	return h.Tr(
		rowHead(h.Title(p.Key), g.Text(name),
			g.If(p.Organisations > 0, dim(fmt.Sprintf("%d organisations", p.Organisations)))),
		h.Td(h.Span(h.Class("state "+class), g.Text(state)),
			g.If(p.FormerKeys() > 0, dim(count(p.FormerKeys())+" keys of before it lost its store"))),
		number(fmt.Sprintf("%.2f", p.Weight)), number(behind(p)), number(count(p.Missing)), number(count(p.Keys)),
		number(size(p.Memory)),
		h.Td(h.Class("num"), h.Title(strings.Join(slices.Sorted(maps.Keys(p.Refused)), ", ")), g.Text(count(refused))),
		h.Td(h.Div(h.Class("acts"),
			act("/peers", p.Key, "weigh", "Set", h.Input(h.Name("weight"), h.Value(fmt.Sprintf("%.2f", p.Weight)),
				g.Attr("size", "4"), g.Attr("inputmode", "decimal"), h.Aria("label", "Weight of "+name))),
			act("/peers", p.Key, "rollback", "Roll back", days("Days to roll back of "+name)),
			g.If(len(p.Former) > 0, act("/peers", p.Key, "forget", "Forget", nil)),
			act("/peers", p.Key, "evict", "Evict", nil))),
	)
}

// peerMap draws the node with its peers around it. The width of a line shows the peer's weight, and the
// text beside it what came from the peer since the start.
func peerMap(n *admin.Network, self string, now time.Time) g.Node {
	if len(n.Peers) == 0 {
		return nil
	}
	const width = 360
	// Few peers are beside the node, many around it.
	height, selfX, turn, far := 220, width/2, 0.25, 130.0
	switch len(n.Peers) {
	case 1:
		height, selfX, turn, far = 90, width/2-95, 0, 95
	case 2:
		height, turn, far = 90, 0, 105
	}
	var lines, dots g.Group
	well := 0
	for i := range n.Peers {
		p := &n.Peers[i]
		text, class := stateOf(p, now)
		if class == "good" {
			well++
		}
		angle := 2 * math.Pi * (float64(i)/float64(len(n.Peers)) - turn)
		x, y := width/2+far*math.Cos(angle), float64(height/2)+78*math.Sin(angle)
		lines = append(lines, g.El("line", h.Class("to-"+class), g.Attr("x1", strconv.Itoa(selfX)),
			g.Attr("y1", strconv.Itoa(height/2)),
			g.Attr("x2", fmt.Sprintf("%.0f", x)), g.Attr("y2", fmt.Sprintf("%.0f", y)),
			g.Attr("stroke-width", fmt.Sprintf("%.1f", 0.5+4*p.Weight))))
		dots = append(dots, g.El("circle", h.Class("at-"+class), g.Attr("cx", fmt.Sprintf("%.0f", x)),
			g.Attr("cy", fmt.Sprintf("%.0f", y)), g.Attr("r", "6"),
			g.El("title", g.Text(nameOf(p)+": "+text))))
		if len(n.Peers) <= 12 {
			away := 18.0 // distance from the lines, which start in the middle
			if y < float64(height/2)-1 || turn == 0 {
				away = -12
			}
			dots = append(dots, mapLabel(x, y+away, nameOf(p)))
			if p.Bytes > 0 {
				lines = append(lines, g.El("text", h.Class("flow"), g.Attr("x", fmt.Sprintf("%.0f", (x+float64(selfX))/2)),
					g.Attr("y", fmt.Sprintf("%.0f", (y+float64(height/2))/2-3)), g.Attr("text-anchor", "middle"),
					g.Text("← "+size(p.Bytes)+", "+plural(p.Rounds, "round"))))
			}
		}
	}
	return h.SVG(h.Class("map"), g.Attr("viewBox", fmt.Sprintf("0 0 %d %d", width, height)), h.Role("img"),
		h.Aria("label", fmt.Sprintf("%s, of which %d are heard and counted", plural(uint64(len(n.Peers)), "peer"), well)),
		lines, g.El("circle", h.Class("self"), g.Attr("cx", strconv.Itoa(selfX)), g.Attr("cy", strconv.Itoa(height/2)),
			g.Attr("r", "9")), mapLabel(float64(selfX), float64(height/2+22), self),
		g.El("text", h.Class("flow"), g.Attr("x", strconv.Itoa(selfX)), g.Attr("y", strconv.Itoa(height/2+33)),
			g.Attr("text-anchor", "middle"), g.Text("published "+size(n.Bytes))), dots)
}

func mapLabel(x, y float64, text string) g.Node {
	if r := []rune(text); len(r) > 22 {
		text = string(r[:21]) + "…"
	}
	return g.El("text", g.Attr("x", fmt.Sprintf("%.0f", x)), g.Attr("y", fmt.Sprintf("%.0f", y)),
		g.Attr("text-anchor", "middle"), g.Text(text))
}

// nameOf returns the name of a peer to show.
func nameOf(p *admin.Peer) string {
	if p.Name != "" {
		return p.Name
	}
	return p.Key[:min(8, len(p.Key))]
}

// invite returns a form that makes an invitation, and the nodes that wait to be accepted.
func invite(all []admin.Invitation, now time.Time) g.Node {
	var waiting, open g.Group
	for i := range all {
		if n := &all[i]; n.Expires.After(now) && len(n.Joiners) < max(1, n.Uses) {
			open = append(open, h.Tr(rowHead(g.Text(cmp.Or(n.Name, "no name"))),
				number(fmt.Sprintf("%.2f", n.Weight)), number(fmt.Sprintf("%d of %d", len(n.Joiners), max(1, n.Uses))),
				h.Td(g.Text(date(n.Expires))), h.Td(act("/peers", n.ID, "withdraw", "Withdraw", nil))))
		}
		for _, j := range all[i].Joiners {
			if j.State == "waiting" {
				waiting = append(waiting, h.Tr(rowHead(g.Text(dashed(j.Name))),
					h.Td(h.Code(h.Class("sig"), g.Text(j.Key))), h.Td(g.Text(date(j.At))),
					h.Td(h.Div(h.Class("acts"), act("/peers", j.Key, "accept", "Accept", nil),
						act("/peers", j.Key, "refuse", "Refuse", nil)))))
			}
		}
	}
	return h.Section(h.H2(g.Text("Invite"), dim("another node into this network")),
		h.Form(h.Class("card fields"), h.Method("post"), h.Action("/peers"),
			h.Div(h.Label(h.For("invited"), g.Text("Name")),
				h.Input(h.ID("invited"), h.Name("name"), g.Attr("maxlength", "64"))),
			h.Div(h.Label(h.For("weight"), g.Text("Weight, 0 to 1")),
				h.Input(h.ID("weight"), h.Name("weight"), h.Value("0.5"), g.Attr("size", "4"), g.Attr("inputmode", "decimal"))),
			h.Button(h.Name("do"), h.Value("invite"), g.Text("Make an invitation"))),
		g.If(len(waiting) > 0, table(g.Group{col("Waits"), col("Key"), col("Since"), col("Actions")}, waiting)),
		g.If(len(open) > 0, g.Group{g.El("h3", g.Text("Open invitations")),
			table(g.Group{col("Of"), num("Weight"), num("Joined"), col("Until"), col("Actions")}, open)}))
}

// peerForms has the forms of the peers by their actions. A form returns the next page, or nil for the
// page of the peers.
var peerForms = map[string]func(s *Site, v *view, key string) (g.Node, error){
	"weigh":    (*Site).weighPeer,
	"rollback": (*Site).rollbackPeer,
	"forget":   (*Site).forgetPeer,
	"invite":   (*Site).invitePeer,
	"withdraw": (*Site).withdrawInvitation,
	"accept":   (*Site).acceptPeer,
	"refuse":   (*Site).refusePeer,
	"evict":    (*Site).evictPeer,
}

// changePeers handles the forms of the peers.
func (s *Site) changePeers(v *view) (g.Node, error) {
	if err := v.ParseForm(); err != nil {
		return nil, badForm(err)
	}
	change, ok := peerForms[v.PostForm.Get("do")]
	if !ok {
		return nil, badForm(errors.New("unknown action"))
	}
	if page, err := change(s, v, v.PostForm.Get("name")); page != nil || err != nil {
		return page, err
	}
	return s.peers(v)
}

// weighPeer gives a peer another weight.
func (s *Site) weighPeer(v *view, key string) (g.Node, error) {
	w, err := weight(v)
	if err != nil {
		return nil, err
	}
	before, err := v.node.Peer(v.Context(), key)
	if err != nil {
		return nil, err
	}
	if _, err := v.node.WeighPeer(v.Context(), key, w); err != nil {
		return nil, err
	}
	if before.Quarantine == "" { // a quarantine cannot be imposed by hand
		s.offer(v, "/peers", func(ctx context.Context, node *admin.Client) (string, error) {
			_, err := node.WeighPeer(ctx, key, before.Weight)
			return fmt.Sprintf("The peer's word is worth %.2f again.", before.Weight), err
		})
	}
	v.notice = fmt.Sprintf("The peer's word is worth %.2f from now on.", w)
	return nil, nil
}

// rollbackPeer drops a peer's counts since a time.
func (s *Site) rollbackPeer(v *view, key string) (g.Node, error) {
	from, err := since(v)
	if err != nil {
		return nil, err
	}
	if d := v.deed(from); !s.agreed(v, d) {
		preview, err := v.node.PreviewRollback(v.Context(), key, from)
		if err != nil {
			return nil, err
		}
		return s.askOfPeer(v, d, func(name string) consequence.Question { return consequence.Rollback(name, from, preview) })
	}
	if _, err := v.node.RollbackPeer(v.Context(), key, from); err != nil {
		return nil, err
	}
	v.notice = "The counts of the peer since " + date(from) + " are dropped."
	return nil, nil
}

// forgetPeer drops a peer's lost incarnations.
func (s *Site) forgetPeer(v *view, key string) (g.Node, error) {
	if d := v.deed(time.Time{}); !s.agreed(v, d) {
		p, err := v.node.Peer(v.Context(), key)
		if err != nil {
			return nil, err
		}
		return s.ask(v, d, consequence.Forget(nameOf(p), p.Former)), nil
	}
	if _, err := v.node.ForgetPeer(v.Context(), key); err != nil {
		return nil, err
	}
	v.notice = "The lost incarnations of the peer are dropped."
	return nil, nil
}

// invitePeer makes an invitation, and shows its line.
func (s *Site) invitePeer(v *view, key string) (g.Node, error) {
	w, err := weight(v)
	if err != nil {
		return nil, err
	}
	made, err := v.node.Invite(v.Context(), admin.NewInvitation{Name: key, Weight: w})
	if err != nil {
		return nil, err
	}
	v.notice = "The invitation is made, and good until " + date(made.Expires) + "."
	s.offer(v, "/peers", func(ctx context.Context, node *admin.Client) (string, error) {
		return "The invitation is withdrawn.", node.Withdraw(ctx, made.ID)
	})
	page, err := s.peers(v)
	return g.Group{invitationCard(made.Line), page}, err
}

// withdrawInvitation withdraws an invitation.
func (s *Site) withdrawInvitation(v *view, key string) (g.Node, error) {
	if d := v.deed(time.Time{}); !s.agreed(v, d) {
		all, err := v.node.Invitations(v.Context())
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(n admin.Invitation) bool { return n.ID == key })
		if i < 0 {
			return nil, badForm(errors.New("there is no such invitation"))
		}
		return s.ask(v, d, consequence.Withdraw(&all[i])), nil
	}
	if err := v.node.Withdraw(v.Context(), key); err != nil {
		return nil, err
	}
	v.notice = "The invitation is withdrawn."
	return nil, nil
}

// acceptPeer accepts a node that has shown an invitation.
func (s *Site) acceptPeer(v *view, key string) (g.Node, error) {
	if _, err := v.node.AcceptPeer(v.Context(), key); err != nil {
		return nil, err
	}
	v.notice = "The node is a peer from now on."
	return nil, nil
}

// refusePeer refuses a node that has shown an invitation.
func (s *Site) refusePeer(v *view, key string) (g.Node, error) {
	if err := v.node.RefusePeer(v.Context(), key); err != nil {
		return nil, err
	}
	v.notice = "The node is refused."
	return nil, nil
}

// evictPeer drops a peer and its counts.
func (s *Site) evictPeer(v *view, key string) (g.Node, error) {
	if d := v.deed(time.Time{}); !s.agreed(v, d) {
		preview, err := v.node.PreviewEvict(v.Context(), key)
		if err != nil {
			return nil, err
		}
		return s.askOfPeer(v, d, func(name string) consequence.Question { return consequence.Evict(name, preview) })
	}
	if err := v.node.EvictPeer(v.Context(), key); err != nil {
		return nil, err
	}
	v.notice = "The peer is dropped, with all that it counted."
	return nil, nil
}

// askOfPeer asks to confirm a change of a peer.
func (s *Site) askOfPeer(v *view, d *deed, question func(name string) consequence.Question) (g.Node, error) {
	p, err := v.node.Peer(v.Context(), d.name)
	if err != nil {
		return nil, err
	}
	return s.ask(v, d, question(nameOf(p))), nil
}

// invitationCard shows the line of an invitation once, to be copied or scanned.
func invitationCard(line string) g.Node {
	drawn, err := qrCode(line)
	if err != nil {
		drawn = nil // too long to be scanned; it can be copied
	}
	return h.Section(h.Class("card"), h.H2(g.Text("Invitation")),
		h.Div(h.Class("handover"), drawn, h.Div(
			h.P(g.Text("Hand this over to the new node alone. It is a secret, and is shown once.")),
			h.Code(h.Class("secret"), h.ID("line"), g.Text(line)),
			h.P(h.Button(h.Type("button"), g.Attr("data-copy", "line"), g.Attr("hidden"), g.Text("Copy"))),
			h.P(g.Text("There, "), h.Code(g.Text("bulkhead join")), g.Text(" asks for it.")))))
}

// qrCode draws a text as a QR code.
func qrCode(text string) (g.Node, error) {
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return nil, fmt.Errorf("web: QR code of %d bytes: %w", len(text), err)
	}
	var path strings.Builder
	for y := range code.Size {
		for x := range code.Size {
			if code.Black(x, y) {
				fmt.Fprintf(&path, "M%d %dh1v1h-1z", x, y)
			}
		}
	}
	return h.SVG(h.Class("qr"), g.Attr("viewBox", fmt.Sprintf("0 0 %d %[1]d", code.Size)), h.Role("img"),
		h.Aria("label", "QR code of the invitation"), g.Attr("shape-rendering", "crispEdges"),
		g.El("path", g.Attr("d", path.String()))), nil
}
