package config

import "strings"

// Aggregate is the section [aggregate].
type Aggregate struct {
	Members []string `toml:"members" doc:"peers whose counts this node publishes as one sum with its own, under another key: their\nkeys, names of groups, or \"*\" for all. Only peers of weight 1 are taken. Empty: no\nsum is published"`
	Servers []string `toml:"servers" secret:"url" doc:"where the sum is published: \"host:port\" of each hub, or URLs of NATS servers. Those\nwho count the members themselves should not hear it there"`

	Credentials string `toml:"credentials" doc:"of NATS servers: as in [mesh]. Empty: the key of the sum"`
	CA          string `toml:"ca" doc:"of NATS servers: as in [mesh]"`
	Cert        string `toml:"cert" doc:"of NATS servers: as in [mesh]"`
	Key         string `toml:"key" doc:"of NATS servers: as in [mesh]"`
	Domain      string `toml:"domain" doc:"of NATS servers: as in [mesh]"`
}

// Access returns the log-in for the NATS servers where the aggregate is published.
func (a *Aggregate) Access() Access { return Access{a.Credentials, a.CA, a.Cert, a.Key, a.Domain} }

func (c *checker) aggregate(a *Aggregate, m *Mesh) {
	switch {
	case len(a.Members) == 0 && len(a.Servers) > 0:
		c.fail("aggregate.servers", "servers of an aggregate without members")
	case len(a.Members) == 0:
		return
	case len(a.Servers) == 0:
		c.fail("aggregate.servers", "an aggregate needs at least one server")
	case m.Role != "both":
		c.fail("mesh.role", "an aggregate needs the role \"both\": it counts its members, and publishes")
	}
	mode := "join"
	if a.External() {
		mode = "external"
	}
	c.servers("aggregate.servers", mode, a.Servers)
	c.access("aggregate", a.External(), a.Access())
}

// External reports whether the servers belong to a NATS cluster that others run.
func (a *Aggregate) External() bool {
	for _, s := range a.Servers {
		if strings.Contains(s, "://") {
			return true
		}
	}
	return false
}
