package doors

import "github.com/bulkhead-mail/bulkhead/internal/config"

// The file descriptors that doors leave to the rest of the node: its files, its peers and what it sends,
// and the socket of administrators.
const (
	reservedDescriptors = 96
	reservedShare       = 8  // at least an eighth of all
	localPlaces         = 64 // of the socket for programs of this machine, from the reserve
)

// fairShare returns how many connections each of a number of doors may take of a limit of descriptors,
// at most the configured number and at least one. A limit of 0 is unknown, and sets none.
func fairShare(limit, doors, configured int) int {
	if limit <= 0 || doors == 0 {
		return configured
	}
	left := limit - max(reservedDescriptors, limit/reservedShare)
	return max(1, min(configured, left/doors))
}

// streamDoors returns the number of enabled doors that accept connections.
func streamDoors(cfg *config.Config) (n int) {
	for _, d := range cfg.Listen.Doors() {
		switch {
		case d.Address == "" || d.Key == "pyzor" || d.Key == "dcc":
		default:
			n++
		}
	}
	return n
}

// shareDescriptors divides the descriptors of the process among the doors. Without that, the clients of
// one door could leave none for the others.
func (s *Set) shareDescriptors(cfg *config.Config) {
	limit, doors := descriptorLimit(), streamDoors(cfg)
	s.places = fairShare(limit, doors, cfg.Limits.Connections)
	if s.places < cfg.Limits.Connections {
		s.opts.Log.Warn("the limit of open files is too low for the doors", "limit", limit, "doors", doors,
			"connections_configured", cfg.Limits.Connections, "connections_of_each_door", s.places,
			"hint", "raise LimitNOFILE of the service or ulimit -n, or lower limits.connections")
	}
}

// connections returns the number of connections that a door may have open.
func (s *Set) connections() int { return s.places }
