package api

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// A described node has a given state and network.
type described struct {
	fakeNode
	fakePeers
	state   admin.NodeState
	network admin.Network
}

func (d *described) State(context.Context) admin.NodeState          { return d.state }
func (d *described) Network(context.Context) (admin.Network, error) { return d.network, nil }
func (d *described) ConfirmClock(ctx context.Context) error         { return d.fakeNode.ConfirmClock(ctx) }
func (d *described) scrape(t *testing.T, prefixes ...string) (lines []string) {
	s := newServer(t, &prototest.House{}, func(o *Options) { o.Node, o.Peers = d, d })
	for line := range strings.Lines(send(s, local, "GET", "/metrics", "", "").Body.String()) {
		line = strings.TrimSpace(line)
		for _, p := range prefixes {
			if strings.HasPrefix(line, "bulkhead_"+p) {
				lines = append(lines, strings.TrimPrefix(line, "bulkhead_"))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// TestNodeMetrics compares the metrics of a node, whole and bare, with its state.
func TestNodeMetrics(t *testing.T) {
	arrays := []admin.Array{{Name: "counts", Bytes: 64, Keys: 3, Fill: 0.5, Ghost: 0.01, Wrong: 0.02, Bulk: 0.03}}
	d := &described{state: admin.NodeState{
		Counters: admin.Counters{Checks: 1, Reports: 2, Refused: 3, Entries: 4, Checkpoints: 5, Recoveries: 6, Forgotten: 7,
			Gatherings: 8},
		Books:    []admin.Book{{Name: "tally", Generations: []admin.Generation{{}, {Arrays: arrays}}}},
		Disk:     &admin.Disk{Free: 100, Needed: 10},
		Doubts:   []admin.Doubt{{Pages: 4}, {Page: 9}, {Pages: 1}},
		Missing:  []string{"a", "b"},
		Healed:   []admin.Healed{{Peer: "p", Pages: 11}},
		Mature:   true,
		ReadOnly: "disk full",
		Ageing:   &admin.Ageing{},
	}}
	names := []string{"array", "checkpoints", "checks", "disk", "generations", "gatherings", "journal", "mature", "pages",
		"parts", "read_only", "recoveries", "reports", "ageing"}
	const array = `{array="counts",book="tally",generation="1"}`
	want := []string{"ageing_held 1", "array_bulk_wrong_ratio" + array + " 0.03", "array_bytes" + array + " 64",
		"array_count_wrong_ratio" + array + " 0.02", "array_fill_ratio" + array + " 0.5",
		"array_ghost_ratio" + array + " 0.01",
		"array_keys" + array + " 3", "checkpoints_total 5", "checks_total 1", "disk_free_bytes 100", "disk_needed_bytes 10",
		"gatherings_total 8", "generations_forgotten_total 7", "journal_entries_total 4", "mature 1",
		`pages_healed_total{peer="p"} 11`, "parts_in_doubt 6", "parts_missing 2", "read_only 1", "recoveries_total 6",
		"reports_refused_total 3", "reports_total 2"}
	if got := d.scrape(t, names...); !slices.Equal(got, want) {
		t.Errorf("the metrics are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	d.state = admin.NodeState{}
	want = []string{"ageing_held 0", "checkpoints_total 0", "checks_total 0", "gatherings_total 0",
		"generations_forgotten_total 0", "journal_entries_total 0", "mature 0", "parts_in_doubt 0", "parts_missing 0",
		"read_only 0", "recoveries_total 0", "reports_refused_total 0", "reports_total 0"}
	if got := d.scrape(t, names...); !slices.Equal(got, want) {
		t.Errorf("the metrics of a bare node are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestNetworkMetrics compares the metrics of a network, whole and bare, with its state.
func TestNetworkMetrics(t *testing.T) {
	d := &described{network: admin.Network{
		Published: 1, Bytes: 2, Rounds: 3, Images: 4, Dropped: 5, Strangers: map[string]uint64{"key": 6}, Healing: true,
		Twin: true, Memory: 7, MaxMemory: 8, Merged: 9,
		Secret:    &admin.SecretChange{At: time.UnixMilli(10500), Missing: []string{"a", "b"}},
		Aggregate: &admin.Aggregate{Organisations: 11, Sums: 12, Fault: "late"},
		Brokers: []admin.Broker{{Server: "one", Connected: true}, {Server: "one"},
			{Server: "two", Trouble: "slow", Answer: 0.25}},
		Peers: []admin.Peer{{Key: "k", Weight: 0.5, Quarantine: "q", Expels: true, Lag: 13, Behind: 14,
			Heard: time.UnixMilli(1500), Silent: 15, Network: "other", Served: 16, Missing: 17, Messages: 18, Bytes: 19,
			Rounds: 20, Images: 21, Asked: 22, Refused: map[string]uint64{"forged": 23}, Keys: 24, Ghost: 0.75}},
	}}
	const peer = `{peer="k"}`
	want := []string{"mesh_aggregate_fault 1", "mesh_aggregate_organisations 11", "mesh_aggregate_sums_total 12",
		`mesh_broker_answer_seconds{server="two"} 0.25`, `mesh_broker_trouble{server="two",trouble="slow"} 1`,
		`mesh_broker_up{server="one"} 1`, `mesh_broker_up{server="two"} 0`, "mesh_dropped_messages_total 5",
		"mesh_healing 1", "mesh_merged_arrays 9", "mesh_published_bytes_total 2", "mesh_published_images_total 4",
		"mesh_published_messages_total 1", "mesh_published_rounds_total 3", "mesh_replica_bytes 7",
		"mesh_replica_limit_bytes 8", "mesh_secret_timestamp_seconds 10.5", "mesh_secret_untold 2",
		`mesh_stranger_messages_total{reason="key"} 6`, "mesh_twin 1",
		"peer_asks_total" + peer + " 22", "peer_behind_seconds" + peer + " 14", "peer_bytes_total" + peer + " 19",
		"peer_expels" + peer + " 1", "peer_ghost" + peer + " 0.75", "peer_heard_timestamp_seconds" + peer + " 1.5",
		"peer_images_total" + peer + " 21", "peer_keys" + peer + " 24", "peer_lag_seconds" + peer + " 13",
		"peer_messages_total" + peer + " 18", "peer_missing_changes" + peer + " 17", "peer_other_network" + peer + " 1",
		"peer_quarantined" + peer + " 1", `peer_refused_total{peer="k",reason="forged"} 23`,
		"peer_rounds_total" + peer + " 20", "peer_served_bytes_total" + peer + " 16", "peer_silent_seconds" + peer + " 15",
		"peer_weight" + peer + " 0.5"}
	if got := d.scrape(t, "mesh", "peer"); !slices.Equal(got, want) {
		t.Errorf("the metrics are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	d.network = admin.Network{Secret: &admin.SecretChange{Done: true}, Aggregate: new(admin.Aggregate),
		Peers: []admin.Peer{{Key: "k"}}}
	want = []string{"mesh_aggregate_fault 0", "mesh_aggregate_organisations 0", "mesh_aggregate_sums_total 0",
		"mesh_dropped_messages_total 0", "mesh_healing 0", "mesh_merged_arrays 0", "mesh_published_bytes_total 0",
		"mesh_published_images_total 0", "mesh_published_messages_total 0", "mesh_published_rounds_total 0",
		"mesh_replica_bytes 0", "mesh_replica_limit_bytes 0", "mesh_twin 0",
		"peer_asks_total" + peer + " 0", "peer_behind_seconds" + peer + " 0", "peer_bytes_total" + peer + " 0",
		"peer_expels" + peer + " 0", "peer_ghost" + peer + " 0", "peer_images_total" + peer + " 0",
		"peer_keys" + peer + " 0", "peer_lag_seconds" + peer + " 0", "peer_messages_total" + peer + " 0",
		"peer_missing_changes" + peer + " 0", "peer_other_network" + peer + " 0", "peer_quarantined" + peer + " 0",
		"peer_rounds_total" + peer + " 0", "peer_served_bytes_total" + peer + " 0", "peer_silent_seconds" + peer + " 0",
		"peer_weight" + peer + " 0"}
	if got := d.scrape(t, "mesh", "peer"); !slices.Equal(got, want) {
		t.Errorf("the metrics of a bare network are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
