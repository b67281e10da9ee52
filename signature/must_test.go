package signature

// must returns v; err is the error of a context that does not end.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
