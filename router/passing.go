package router

import (
	"net/url"
	"strings"
)

// passURL returns the URL of a path below a base URL. The path is plain, not escaped, and holds no dots to resolve. Its
// version takes the place of the base's: /v1/files below https://host/v1 is https://host/v1/files, as is /files, and
// /upload/v1beta/files below https://host/v1beta is https://host/upload/v1beta/files.
func passURL(base *url.URL, path, query string) *url.URL {
	u := *base
	front, version := u.Path, ""
	if i := strings.LastIndexByte(front, '/'); i >= 0 && isVersion(front[i+1:]) {
		front, version = front[:i], front[i:]
	}
	if !hasVersion(path) {
		path = version + path
	}
	u.Path, u.RawPath, u.RawQuery = front+path, "", query
	return &u
}

// hasVersion reports whether one of the first two segments of a path is a version.
func hasVersion(path string) bool {
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	second, _, _ := strings.Cut(rest, "/")
	return isVersion(first) || first == "upload" && isVersion(second)
}

// isVersion reports whether a segment of a path is a version, such as v1 or v1beta.
func isVersion(segment string) bool {
	return len(segment) > 1 && segment[0] == 'v' && '0' <= segment[1] && segment[1] <= '9'
}
