package bulkhead

import "errors"

// The reasons for which a request is refused. Every error that a
// [Clearinghouse] returns wraps one of them, or is a fault of the node itself.
// A refused request has changed nothing.
var (
	// ErrMalformed: the request breaks the rules of its format.
	ErrMalformed = errors.New("malformed request")
	// ErrUnauthorised: the reporter is unknown or the secret is wrong.
	ErrUnauthorised = errors.New("unauthorised")
	// ErrForbidden: the reporter is known but may not do this.
	ErrForbidden = errors.New("forbidden")
	// ErrOverLimit: too many requests, or one that is too large.
	ErrOverLimit = errors.New("over limit")
	// ErrGeometry: a filter's geometry or key is not the one expected.
	ErrGeometry = errors.New("wrong geometry")
	// ErrReadOnly: the node answers checks but takes no reports at present (full
	// disk, failed write, shutdown). Trying again later may succeed.
	ErrReadOnly = errors.New("temporarily read-only")
)

// errUncounted marks the errors of [CountAndReport] that do not refuse the reporter alone.
var errUncounted = errors.New("not counted")

// Tolerate returns nil for an error that refuses the reporter ([ErrUnauthorised],
// [ErrForbidden], [ErrOverLimit]), and any other error unchanged. It is for front
// doors that count and vote in one request: a client that may count need not have a
// vote. It does not tolerate that [CountAndReport] has not counted.
func Tolerate(err error) error {
	if errors.Is(err, errUncounted) {
		return err
	}
	if errors.Is(err, ErrUnauthorised) || errors.Is(err, ErrForbidden) || errors.Is(err, ErrOverLimit) {
		return nil
	}
	return err
}
