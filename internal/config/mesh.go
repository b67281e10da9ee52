package config

import (
	"net"
	"net/url"
	"time"
)

// Mesh is the section [mesh].
type Mesh struct {
	Mode        string   `toml:"mode" doc:"\"off\": the node counts alone, unless it has joined a network with \"bulkhead join\";\n\"hub\": it runs the broker for itself and its peers;\n\"join\": it connects to the hubs of servers;\n\"external\": it uses NATS servers with JetStream that somebody else runs"`
	Listen      string   `toml:"listen" doc:"address of a hub (TCP, always TLS): \"host:port\""`
	Servers     []string `toml:"servers" secret:"url" doc:"mode \"join\" (and further hubs of a hub): \"host:port\" of each hub, all are used\nat once; mode \"external\": URLs of the cluster's servers, \"tls://host:4222\""`
	Role        string   `toml:"role" doc:"\"both\"; \"subscribe\": count peers and publish nothing; \"publish\": publish and\ncount no peer (a spam trap)"`
	Credentials string   `toml:"credentials" doc:"mode \"external\": file with a user JWT and its key. Empty: the node's own key;\n\"none\": the servers ask for none, or the URLs have a name and password"`
	CA          string   `toml:"ca" doc:"mode \"external\": PEM file of the authorities for the servers' certificates.\nEmpty: those of the system"`
	Interval    Duration `toml:"publish_interval" doc:"time between two publications of what was counted. On average a peer knows after\nhalf of it; a shorter time costs more bytes per report"`
	Heartbeat   Duration `toml:"heartbeat" doc:"time between two messages that state the versions of this node's arrays"`
	Memory      int64    `toml:"memory_bytes" doc:"memory for the counts of all peers, bytes. Beyond it, counts of peers are merged,\nwhich makes them less exact; what has no room even then is refused"`
	MaxAdds     float64  `toml:"peer_adds_per_minute" doc:"what one peer may count in a minute; an hour's worth may come at once. A peer\nthat exceeds it is quarantined: kept, but not counted until you weigh it again"`
	MaxListings float64  `toml:"peer_listings_per_minute" doc:"signatures that one peer may list or revoke in a minute, as above"`
	StreamAge   Duration `toml:"stream_age" doc:"how long the broker keeps what was published, for nodes that are away. A node that\nis away for longer is sent images of the arrays"`
	StreamBytes int64    `toml:"stream_bytes" doc:"how much of it the broker keeps, bytes; its images may take four times as much"`
	Replicas    int      `toml:"stream_replicas" doc:"mode \"external\": servers that keep each stream"`
}

func defaultMesh() Mesh {
	return Mesh{
		Mode: "off", Listen: "127.0.0.1:8421", Servers: []string{}, Role: "both",
		Interval: Duration(1500 * time.Millisecond), Heartbeat: Duration(30 * time.Second), Memory: 4 << 30,
		MaxAdds: 1e6, MaxListings: 1e5, StreamAge: Duration(72 * time.Hour), StreamBytes: 1 << 30, Replicas: 1,
	}
}

func (c *checker) mesh(m *Mesh) {
	c.oneOf("mesh.mode", m.Mode, "off", "hub", "join", "external")
	c.oneOf("mesh.role", m.Role, "both", "subscribe", "publish")
	c.address("mesh.listen", m.Listen, false)
	switch {
	case m.Mode == "hub" && m.Listen == "":
		c.fail("mesh.listen", "a hub needs an address")
	case (m.Mode == "join" || m.Mode == "external") && len(m.Servers) == 0:
		c.fail("mesh.servers", "mode %q needs at least one server", m.Mode)
	case m.Mode != "external" && m.Credentials+m.CA != "":
		c.fail("mesh.credentials", "credentials and ca are for mode \"external\"; peers know each other by their keys")
	}
	c.servers("mesh.servers", m.Mode, m.Servers)
	c.duration("mesh.publish_interval", m.Interval, 10*time.Millisecond, time.Minute)
	c.duration("mesh.heartbeat", m.Heartbeat, 100*time.Millisecond, time.Hour)
	c.between("mesh.memory_bytes", float64(m.Memory), 1<<20, 1<<50)
	c.between("mesh.peer_adds_per_minute", m.MaxAdds, 1, 1e12)
	c.between("mesh.peer_listings_per_minute", m.MaxListings, 1, 1e12)
	c.duration("mesh.stream_age", m.StreamAge, time.Minute, 366*24*time.Hour)
	c.between("mesh.stream_bytes", float64(m.StreamBytes), 1<<20, 1<<50)
	c.between("mesh.stream_replicas", float64(m.Replicas), 1, 5)
}

func (c *checker) servers(key, mode string, servers []string) {
	if len(servers) > 16 {
		c.fail(key, "%d servers, limit 16", len(servers))
	}
	for _, s := range servers {
		if mode != "external" {
			if host, _, err := net.SplitHostPort(s); err != nil || host == "" {
				c.fail(key, "%.80q is not host:port", s)
			}
			continue
		}
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls" && u.Scheme != "ws" && u.Scheme != "wss" {
			c.fail(key, "%.80q is not a URL like \"tls://host:4222\"", s)
		}
	}
}
