package filter

// Empty returns an empty filter of the shape and key of t. It can be merged into t, and t into it.
func (t *TwoPart) Empty() (*TwoPart, error) {
	e, err := NewTwoPart(t.shape, t.secret)
	if err != nil {
		return nil, err
	}
	e.public = t.public
	return e, nil
}
