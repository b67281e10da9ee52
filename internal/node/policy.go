package node

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/policy"
)

// openPolicy opens the door for Postfix policy delegation.
func (n *Node) openPolicy(ctx context.Context, address string) (*opened, error) {
	cfg := n.cfg.Load()
	front := &policy.Server{
		Limiter: n.mta.limits, FailDefer: cfg.Policy.OnFault == "defer", MaxConns: cfg.Limits.Connections,
		Log: n.log.With("door", "policy"),
	}
	front.Rate, front.Exempt = n.doorRate(cfg.Limits)
	o, err := openStream(ctx, address, front)
	if err != nil {
		return nil, err
	}
	o.metrics = policyMetrics(&front.Stats)
	return o, nil
}

func policyMetrics(s *policy.Stats) []prometheus.Collector {
	return []prometheus.Collector{
		newFamily("bulkhead_policy_answers_total", "Answers of the policy door.", "action", map[string]*atomic.Int64{
			"all": &s.Requests, "defer": &s.Deferred, "reject": &s.Rejected, "hold": &s.Held, "told": &s.Told,
			"delay": &s.Delayed,
		}),
		newFamily("bulkhead_policy_faults_total", "Policy requests that were malformed, or could not be decided.", "kind",
			map[string]*atomic.Int64{
				"malformed": &s.Malformed, "undecided": &s.Faults,
			}),
	}
}
