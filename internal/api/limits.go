package api

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bulkhead-mail/bulkhead"
)

// validate checks a JSON value against its schema in the document, with the library that prints the
// schema.
func validate(schemas huma.Registry, schema *huma.Schema, where string, value any) error {
	var res huma.ValidateResult
	path := huma.NewPathBuffer(make([]byte, 0, 64), 0)
	huma.Validate(schemas, schema, path, huma.ModeWriteToServer, value, &res)
	if len(res.Errors) == 0 {
		return nil
	}
	detail, ok := res.Errors[0].(*huma.ErrorDetail)
	if !ok {
		return fmt.Errorf("%w: %s: %v", bulkhead.ErrMalformed, where, res.Errors[0])
	}
	if detail.Location != "" { // names from the schema, and of unknown fields
		where += fmt.Sprintf(": %.80s", detail.Location)
	}
	return fmt.Errorf("%w: %s: %s", bulkhead.ErrMalformed, where, detail.Message)
}

// validateBody checks the JSON of one T, or of an array of T, against the schema of T.
func validateBody[T any](r *request, body []byte, batch bool) error {
	schema := r.schemas.Schema(reflect.TypeFor[T](), true, "")
	values := make([]any, 1)
	into := any(&values[0])
	if batch {
		into = &values
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%w: body: %v", bulkhead.ErrMalformed, err)
	}
	for i, value := range values {
		if err := validate(r.schemas, schema, "body", value); err != nil {
			return at(err, i, batch)
		}
	}
	return nil
}

// validateQuery checks query parameters against the schemas of the operation.
func (r *request) validateQuery(q url.Values) error {
	for _, p := range r.params {
		values, given := q[p.Name]
		if p.In != "query" || !given {
			continue
		}
		var value any = values[0]
		switch p.Schema.Type {
		case huma.TypeArray:
			value = values
		case huma.TypeInteger:
			n, err := parseNumber(q, p.Name)
			if err != nil {
				return err
			}
			value = n
		case huma.TypeNumber:
			f, err := parseFraction(q, p.Name)
			if err != nil {
				return err
			}
			value = f
		}
		if err := validate(r.schemas, p.Schema, p.Name, value); err != nil {
			return err
		}
	}
	return nil
}
