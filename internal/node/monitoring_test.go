package node

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
	"github.com/bulkhead-mail/bulkhead/internal/trial"
)

// monitoring is the folder of the dashboard and the rules.
const monitoring = "../../packaging/monitoring/"

// declared lists metrics that a node declares, and exposes only after a fault, with a standby, or with a
// journal in a stream. The values are their labels.
var declared = map[string][]string{
	"bulkhead_peer_refused_total": {"peer", "reason"},
	"bulkhead_standby_connected":  nil, "bulkhead_standby_lag_seconds": nil, "bulkhead_standby_witness_up": nil,
	"bulkhead_journal_stream_up": nil, "bulkhead_journal_stream_bytes": nil,
	"bulkhead_journal_stream_limit_bytes": nil,
}

// exposed has the labels, and their values, of the metrics of some nodes.
type exposed map[string]map[string]map[string]bool

var sample = regexp.MustCompile(`^([a-z_0-9]+)(?:\{(.*)\})?$`)
var label = regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"`)

func (e exposed) add(t *testing.T, n *Node) {
	t.Helper()
	for name := range scrape(t, n) {
		m := sample.FindStringSubmatch(name)
		if m == nil {
			t.Fatalf("sample %q", name)
		}
		if e[m[1]] == nil {
			e[m[1]] = make(map[string]map[string]bool)
		}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			if e[m[1]][l[1]] == nil {
				e[m[1]][l[1]] = make(map[string]bool)
			}
			e[m[1]][l[1]][l[3]] = true
		}
	}
}

// everyMetric returns the metrics of four nodes, which together have all: a hub with every door, a
// list and a rate limit, its peer, its edge, and an edge of a site whose only shard it is.
func everyMetric(t *testing.T) exposed {
	t.Helper()
	all := make(exposed)
	list := buildList(t, t.TempDir())
	hub, _ := start(t, Options{Config: everyDoor(t, "[mesh]\n"+quickMesh+hubMesh(t)+
		fmt.Sprintf(
			"[[ratelimit]]\nname = \"senders\"\nkey = \"{sender}\"\nlimit = 100\nperiod = \"1h\"\n[[lists.list]]\n"+
				"name = \"bad\"\npath = %q\n",
			list)), Dir: t.TempDir(), Version: "1.2.3"})
	peer, _ := startIn(t, t.TempDir(), "")
	invitation, err := hub.peers.Invite(t.Context(), admin.NewInvitation{Name: "peer", Weight: 1, Accept: true})
	if err != nil {
		t.Fatal(err)
	}
	nodetest.Await(t, "the peer joins", func() bool {
		j, err := peer.peers.Join(t.Context(), admin.Join{Line: invitation.Line, Weight: 1})
		return err == nil && j.State == "joined"
	})
	if _, err := (&trial.Prober{Node: admin.New(address(t, hub, "http"), "")}).Doors(t.Context()); err != nil {
		t.Fatal(err)
	}
	upstream := fmt.Sprintf("[upstream]\nurl = %q\ntoken_file = %q\n", address(t, hub, "http"), hub.AdminTokenFile())
	edge, _ := start(t, Options{Config: everyDoor(t, upstream), Dir: t.TempDir()})
	sharded, _ := shardedEdge(t, address(t, hub, "http"), hub.AdminTokenFile(), t.TempDir())
	for _, n := range []*Node{hub, peer, edge, sharded} {
		all.add(t, n)
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		hub.registry.Describe(descs)
	}()
	for d := range descs {
		for name, labels := range declared {
			if strings.Contains(d.String(), `fqName: "`+name+`"`) {
				all[name] = make(map[string]map[string]bool)
				for _, l := range labels {
					all[name][l] = make(map[string]bool)
				}
			}
		}
	}
	return all
}

// An ask is a query of Prometheus, and the text about its answer.
type ask struct {
	where, expr string
	legend      string // of the dashboard
}

// asks returns the queries of the dashboard and of the rules.
func asks(t *testing.T) (all []ask) {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Query string }
		}
	}
	text, err := os.ReadFile(monitoring + "bulkhead.dashboard.json")
	if err == nil {
		err = json.Unmarshal(text, &dashboard)
	}
	rules, err2 := os.ReadFile(monitoring + "bulkhead.rules.yml")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	for _, p := range dashboard.Panels {
		for _, q := range p.Targets {
			all = append(all, ask{"panel " + p.Title, q.Expr, q.LegendFormat})
		}
	}
	for _, v := range dashboard.Templating.List {
		if strings.HasPrefix(v.Query, "label_values(") {
			all = append(all, ask{"variable " + v.Name, v.Query, ""})
		}
	}
	for _, m := range regexp.MustCompile(`(?m)- alert: (\w+)\n +expr: (.*)$`).FindAllStringSubmatch(string(rules), -1) {
		all = append(all, ask{"alert " + m[1], m[2], ""})
	}
	if n := strings.Count(string(rules), "expr:"); len(all) < 80 || n < 20 {
		t.Fatalf("%d queries, %d of them alerts", len(all), n)
	}
	return all
}

var (
	named   = regexp.MustCompile(`\b((?:bulkhead|go|process)_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	grouped = regexp.MustCompile(`\bby \(([a-z_, ]+)\)`)
	legend  = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)
)

// TestMonitoring checks that nodes expose the metrics, labels and values that the dashboard and the
// rules query.
func TestMonitoring(t *testing.T) {
	all := everyMetric(t)
	seen := 0
	for _, q := range asks(t) {
		labels := map[string]bool{"job": true, "instance": true} // Prometheus adds them
		for _, m := range named.FindAllStringSubmatch(q.expr, -1) {
			has, ok := all[m[1]]
			if !ok {
				t.Errorf("%s: nobody exposes %s", q.where, m[1])
				continue
			}
			seen++
			for name := range has {
				labels[name] = true
			}
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				if l[1] == "job" || l[1] == "instance" {
					continue
				}
				if has[l[1]] == nil {
					t.Errorf("%s: %s has no label %s", q.where, m[1], l[1])
				}
				if values := has[l[1]]; l[2] == "=" && !values[l[3]] {
					t.Errorf("%s: %s{%s} is never %q", q.where, m[1], l[1], l[3])
				}
				if l[2] == "=~" && l[1] != "status" {
					for _, v := range strings.Split(l[3], "|") {
						if !has[l[1]][v] {
							t.Errorf("%s: %s{%s} is never %q", q.where, m[1], l[1], v)
						}
					}
				}
			}
		}
		named := legend.FindAllStringSubmatch(q.legend, -1)
		for _, m := range grouped.FindAllStringSubmatch(q.expr, -1) {
			for _, name := range strings.Split(m[1], ", ") {
				named = append(named, []string{"", name})
			}
		}
		for _, m := range named {
			if !labels[m[1]] {
				t.Errorf("%s: none of its metrics has a label %s", q.where, m[1])
			}
		}
	}
	if seen < 80 {
		t.Errorf("%d metrics are asked for", seen)
	}
	t.Logf("%d metrics in %d queries; %d are exposed", seen, len(asks(t)), len(all))
}

// TestAlertsAreTested checks that each alert has a test with a fault and one without.
func TestAlertsAreTested(t *testing.T) {
	tests, err := os.ReadFile(monitoring + "bulkhead.rules_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	for _, q := range asks(t) {
		if name, ok := strings.CutPrefix(q.where, "alert "); ok {
			for _, what := range []string{"fault", "none"} {
				if !strings.Contains(string(tests), "\n  - name: "+name+", "+what+"\n") {
					missing = append(missing, name+", "+what)
				}
			}
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		t.Errorf("no test %q", missing)
	}
}
