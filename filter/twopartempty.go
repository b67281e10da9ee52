package filter

// Empty returns an empty filter of the shape and key of t, into which t may be
// merged and which may be merged into t.
func (t *TwoPart) Empty() (*TwoPart, error) {
	e, err := NewTwoPart(t.shape, t.secret)
	if err != nil {
		return nil, err
	}
	e.public = t.public
	return e, nil
}
