package node

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/door"
)

// leastMessages is the least memory for messages that the doors get by default.
const leastMessages = 64 << 20

// messageMemory returns how much memory, in bytes, the messages of all doors may take: the
// configured value, or an eighth of the machine's memory. machine is 0 if that is unknown.
func messageMemory(set int64, machine uint64) int64 {
	switch {
	case set > 0:
		return set
	case machine == 0:
		return 4 * leastMessages
	}
	return int64(max(machine/8, leastMessages))
}

// LimitMemory makes the garbage collector keep this process below nine tenths of the available
// memory, unless $GOMEMLIMIT is set. It returns the limit in bytes; 0 for none.
func LimitMemory() int64 {
	machine := machineMemory()
	if os.Getenv("GOMEMLIMIT") != "" || machine == 0 || machine > math.MaxInt64 {
		return 0
	}
	limit := int64(machine / 10 * 9)
	debug.SetMemoryLimit(limit)
	return limit
}

func messageMetrics(m *door.Memory) []prometheus.Collector {
	usage := func(i int) float64 {
		limit, held, refusals := m.Usage()
		return float64([]int64{limit, held, refusals}[i])
	}
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "bulkhead_message_memory_limit_bytes",
			Help: "What messages and datagrams that are worked on may take, through all doors."}, func() float64 {
			return usage(0)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "bulkhead_message_memory_bytes", Help: "What they take."},
			func() float64 { return usage(1) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "bulkhead_messages_crowded_total",
			Help: "Messages and datagrams that were not taken for want of that memory."}, func() float64 { return usage(2) }),
	}
}
