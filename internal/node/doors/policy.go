package doors

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/ratelimit"
	"github.com/bulkhead-mail/bulkhead/policy"
)

// A policyLimiter is the rate limits as the doors for mail servers see them.
type policyLimiter struct{ limits *ratelimit.Limiter }

// Limit implements [policy.Limiter].
func (l policyLimiter) Limit(ctx context.Context, attr func(name string) []byte) (policy.Action, string, error) {
	action, text, err := l.limits.Limit(ctx, attr)
	return policy.Action(action), text, err
}

func (s *Set) newPolicy(cfg *config.Config) *policy.Server {
	rate, exempt := s.doorRate(cfg.Limits)
	return &policy.Server{
		Limiter: policyLimiter{s.opts.Limits}, FailDefer: cfg.Policy.OnFault == "defer", MaxConns: s.connections(),
		Rate: rate, Exempt: exempt, Log: s.opts.Log.With("door", "policy"),
	}
}

// openPolicy opens the door for Postfix policy delegation.
func (s *Set) openPolicy(ctx context.Context, address string) (*opened, error) {
	front := s.newPolicy(s.opts.Config())
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
			"all": &s.Requests, "defer": &s.Deferred, "reject": &s.Rejected, "hold": &s.Held, "told": &s.Annotated,
			"delay": &s.Delayed,
		}),
		newFamily("bulkhead_policy_faults_total", "Policy requests that were malformed, or could not be decided.", "kind",
			map[string]*atomic.Int64{
				"malformed": &s.Malformed, "undecided": &s.Faults,
			}),
	}
}
