package api

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// A peerCollector reads the state of the network whenever metrics are read.
type peerCollector struct {
	peers  Peers
	desc   map[string]*prometheus.Desc
	listed []string // sorted names, so that the order is stable
}

func newPeerCollector(p Peers) *peerCollector {
	c := &peerCollector{peers: p, desc: make(map[string]*prometheus.Desc)}
	add := func(name, help string, labels ...string) {
		c.desc[name] = prometheus.NewDesc("bulkhead_"+name, help, labels, nil)
		c.listed = append(c.listed, name)
	}
	add("mesh_published_messages_total", "Messages published to peers.")
	add("mesh_published_bytes_total", "Bytes of them.")
	add("mesh_published_rounds_total", "Rounds in them.")
	add("mesh_published_images_total", "Pages published to who lacks rounds.")
	add("mesh_dropped_messages_total", "Messages that no broker took in time.")
	add("mesh_stranger_messages_total", "Messages refused of senders that are no peers.", "reason")
	add("mesh_healing", "1 while the node asks peers for pages of its own that it has lost, and publishes nothing.")
	add("mesh_twin", "1 while another server uses this node's key.")
	add("mesh_replica_bytes", "Memory that the counts of peers take.")
	add("mesh_replica_limit_bytes", "Memory that the counts of peers may take.")
	add("mesh_merged_arrays", "Arrays of peers that were merged with others, to save memory.")
	add("mesh_secret_timestamp_seconds", "When the network's announced secret is used; absent if none is to come.")
	add("mesh_secret_untold",
		"Peers that have not fetched the network's announced secret here; absent if none is to come.")
	add("mesh_aggregate_organisations",
		"Organisations in the aggregate that the node publishes; absent if it publishes none.")
	add("mesh_aggregate_sums_total", "How often that aggregate was made anew.")
	add("mesh_aggregate_fault", "1 while it is not published, or something is missing in it.")
	add("mesh_broker_up", "1 while a broker is connected.", "server")
	add("mesh_broker_trouble", "1 while a NATS server of another operator has this trouble.", "server", "trouble")
	add("mesh_broker_answer_seconds", "Latest answer time of such a server.", "server")
	add("peer_weight", "Weight of the peer's counts.", "peer")
	add("peer_quarantined", "1 while the peer is kept and not counted.", "peer")
	add("peer_expels", "1 while the peer is a hub that has expelled this node.", "peer")
	add("peer_lag_seconds", "From when the peer counted to when this node did, of its last message.", "peer")
	add("peer_behind_seconds", "For how long something of the peer has been missing.", "peer")
	add("peer_heard_timestamp_seconds", "When the peer was last heard; absent if it never was.", "peer")
	add("peer_silent_seconds", "For how long the peer has been silent, once that is ten heartbeats.", "peer")
	add("peer_other_network", "1 while the peer is in another network, since its secret is another one.", "peer")
	add("peer_served_bytes_total", "Bytes sent again because the peer asked.", "peer")
	add("peer_missing_changes", "Changes of the peer's arrays that have not arrived.", "peer")
	add("peer_messages_total", "Messages of the peer.", "peer")
	add("peer_bytes_total", "Bytes of them.", "peer")
	add("peer_rounds_total", "Rounds applied.", "peer")
	add("peer_images_total", "Pages applied.", "peer")
	add("peer_asks_total", "Times that the peer was asked for something missing.", "peer")
	add("peer_refused_total", "Messages and parts of the peer that were refused.", "peer", "reason")
	add("peer_keys", "Distinct keys in the peer's arrays.", "peer")
	add("peer_ghost",
		"Probability that the peer's arrays, or those they are merged into, show a signature that was never "+
			"reported.", "peer")
	return c
}

// Describe implements [prometheus.Collector].
func (c *peerCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, name := range c.listed {
		ch <- c.desc[name]
	}
}

// Collect implements [prometheus.Collector].
func (c *peerCollector) Collect(ch chan<- prometheus.Metric) {
	n, err := c.peers.Network(context.Background())
	if err != nil {
		return // the node has no mesh
	}
	gauge := func(name string, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(c.desc[name], prometheus.GaugeValue, v, labels...)
	}
	count := func(name string, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(c.desc[name], prometheus.CounterValue, float64(v), labels...)
	}
	count("mesh_published_messages_total", n.Published)
	count("mesh_published_bytes_total", n.Bytes)
	count("mesh_published_rounds_total", n.Rounds)
	count("mesh_published_images_total", n.Images)
	count("mesh_dropped_messages_total", n.Dropped)
	for reason, v := range n.Strangers {
		count("mesh_stranger_messages_total", v, reason)
	}
	gauge("mesh_healing", one01(n.Healing))
	gauge("mesh_twin", one01(n.Twin))
	gauge("mesh_replica_bytes", float64(n.Memory))
	gauge("mesh_replica_limit_bytes", float64(n.MaxMemory))
	gauge("mesh_merged_arrays", float64(n.Merged))
	if s := n.Secret; s != nil && !s.Done {
		gauge("mesh_secret_timestamp_seconds", float64(s.At.UnixMilli())/1000)
		gauge("mesh_secret_untold", float64(len(s.Missing)))
	}
	if a := n.Aggregate; a != nil {
		gauge("mesh_aggregate_organisations", float64(a.Organisations))
		count("mesh_aggregate_sums_total", a.Sums)
		gauge("mesh_aggregate_fault", one01(a.Fault != ""))
	}
	servers := make(map[string]bool)
	for _, b := range n.Brokers {
		if !servers[b.Server] { // two connections may go to one server
			servers[b.Server] = true
			gauge("mesh_broker_up", one01(b.Connected), b.Server)
			if b.Trouble != "" {
				gauge("mesh_broker_trouble", 1, b.Server, b.Trouble)
			}
			if b.Answer > 0 {
				gauge("mesh_broker_answer_seconds", b.Answer, b.Server)
			}
		}
	}
	for i := range n.Peers {
		p := &n.Peers[i]
		gauge("peer_weight", p.Weight, p.Key)
		gauge("peer_quarantined", one01(p.Quarantine != ""), p.Key)
		gauge("peer_expels", one01(p.Expels), p.Key)
		gauge("peer_lag_seconds", p.Lag, p.Key)
		gauge("peer_behind_seconds", p.Behind, p.Key)
		if !p.Heard.IsZero() {
			gauge("peer_heard_timestamp_seconds", float64(p.Heard.UnixMilli())/1000, p.Key)
		}
		gauge("peer_silent_seconds", p.Silent, p.Key)
		gauge("peer_other_network", one01(p.Network != ""), p.Key)
		count("peer_served_bytes_total", p.Served, p.Key)
		gauge("peer_missing_changes", float64(p.Missing), p.Key)
		count("peer_messages_total", p.Messages, p.Key)
		count("peer_bytes_total", p.Bytes, p.Key)
		count("peer_rounds_total", p.Rounds, p.Key)
		count("peer_images_total", p.Images, p.Key)
		count("peer_asks_total", p.Asked, p.Key)
		for reason, v := range p.Refused {
			count("peer_refused_total", v, p.Key, reason)
		}
		gauge("peer_keys", float64(p.Keys), p.Key)
		gauge("peer_ghost", p.Ghost, p.Key)
	}
}

func one01(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
