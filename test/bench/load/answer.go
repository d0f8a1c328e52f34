package load

import "bytes"

// readAnswer finds the status of an HTTP answer in the bytes read so far, and whether they are all of it.
// It knows no more of HTTP than the servers that are measured here answer with.
func readAnswer(b []byte) (status int, whole bool) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 || end < len("HTTP/1.1 200") {
		return 0, false
	}
	for _, digit := range b[len("HTTP/1.1 "):len("HTTP/1.1 200")] {
		status = status*10 + int(digit-'0')
	}
	length := 0
	const name = "\r\nContent-Length: "
	if at := bytes.Index(b[:end+2], []byte(name)); at >= 0 {
		for _, digit := range b[at+len(name):] {
			if digit < '0' || digit > '9' {
				break
			}
			length = length*10 + int(digit-'0')
		}
	}
	return status, len(b) >= end+4+length
}
