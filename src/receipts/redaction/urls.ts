/** Credentials in URLs: `user:pass@`, database DSNs, signed URLs. */
import { alphabet, runEnd, runStart } from './characters.ts'
import type { ReportFinding } from './findings.ts'
import { isPlaceholder } from './placeholders.ts'

const SCHEME = alphabet(/[A-Za-z0-9+.-]/)
const AUTHORITY = alphabet(/[^\s"'`<>\\/?#]/)
const ADDRESS = alphabet(/[^\s"'`<>\\]/)
const BEFORE_DSN = alphabet(/[^\s"'`<>\\(]/)
const QUERY_VALUE = alphabet(/[^\s"'`<>\\&]/)
/** The maximum length of a password with a raw slash or `#`. The limit keeps a text full of URLs linear. */
const RAW_PASSWORD_MAX = 256
/** With these schemes a lone user name is a login name (`ssh://git@host`). Elsewhere it is usually a token. */
const LOGIN_SCHEMES = new Set(['ssh', 'git', 'git+ssh', 'svn+ssh', 'sftp', 'scp', 'rsync'])

export function findUrlSecrets(text: string, report: ReportFinding): void {
  for (const marker of ['://', ':\\/\\/', ':\\\\/\\\\/', ':\\u002f\\u002f', ':\\u002F\\u002F']) {
    let nextAt = -1
    for (let at = text.indexOf(marker); at !== -1; at = text.indexOf(marker, at + marker.length)) {
      if (nextAt < at) nextAt = text.indexOf('@', at)
      if (nextAt === -1) break
      findUserinfo(text, at, at + marker.length, nextAt, report)
    }
  }
  findEncodedUserinfo(text, report)
  findDriverDsns(text, report)
  findSignatures(text, report)
}

function findUserinfo(
  text: string,
  colon: number,
  start: number,
  nextAt: number,
  report: ReportFinding,
): void {
  const authority = text.slice(start, runEnd(text, start, AUTHORITY))
  const at = authority.includes('@')
    ? authority.lastIndexOf('@')
    : rawPasswordEnd(text, start, authority, nextAt)
  if (at < 1 || text.startsWith('sha256:', start + at + 1)) return
  const userinfo = text.slice(start, start + at)
  const separator = userinfo.indexOf(':')
  if (separator === -1) {
    const scheme = text.slice(runStart(text, colon, SCHEME, Math.max(0, colon - 16)), colon).toLowerCase()
    if (LOGIN_SCHEMES.has(scheme) || isPlaceholder(userinfo)) return
  } else if (isPlaceholder(userinfo.slice(separator + 1))) return
  report(start, start + at, 'url_userinfo')
}

/** A password can contain a raw `/`, `?` or `#`. Then the text after the first colon is not a port. */
function rawPasswordEnd(text: string, start: number, authority: string, nextAt: number): number {
  if (nextAt - start > RAW_PASSWORD_MAX) return -1
  const separator = authority.slice(0, RAW_PASSWORD_MAX).indexOf(':')
  if (separator < 1 || authority.startsWith('[')) return -1
  if (/^(?:\d*|port|[$*{<%:].*)$/i.test(authority.slice(separator + 1, RAW_PASSWORD_MAX))) return -1
  const end = runEnd(text, start, ADDRESS, Math.min(text.length, start + RAW_PASSWORD_MAX))
  return text.slice(start, end).lastIndexOf('@')
}

/** Matches `https%3A%2F%2Fuser%3Apass%40host`, a URL in a parameter. */
function findEncodedUserinfo(text: string, report: ReportFinding): void {
  if (!text.includes('%2F%2F') && !text.includes('%2f%2f')) return
  for (const match of text.matchAll(
    /%3A%2F%2F((?:[A-Za-z0-9._~!*+-]|%(?!2F|40|26|20)[0-9A-F]{2}){1,512})%40/gi,
  )) {
    const start = match.index + '%3A%2F%2F'.length
    report(start, start + match[1]!.length, 'url_userinfo')
  }
}

/** Matches `user:pass@tcp(host)/db` in Go and `jdbc:oracle:thin:user/pass@host` in Java. */
function findDriverDsns(text: string, report: ReportFinding): void {
  for (const marker of ['@tcp(', '@unix(']) {
    for (let at = text.indexOf(marker); at !== -1; at = text.indexOf(marker, at + 1)) {
      const start = runStart(text, at, BEFORE_DSN, Math.max(0, at - RAW_PASSWORD_MAX))
      const [, password] = text.slice(start, at).split(':', 2)
      if (password !== undefined && !isPlaceholder(password)) report(start, at, 'url_userinfo')
    }
  }
  const thin = 'oracle:thin:'
  for (let at = text.indexOf(thin); at !== -1; at = text.indexOf(thin, at + 1)) {
    const start = at + thin.length
    const login = text.slice(
      start,
      runEnd(text, start, ADDRESS, Math.min(text.length, start + RAW_PASSWORD_MAX)),
    )
    const match = /^[^/@]+\/([^@]+)@/.exec(login)
    if (match !== null && !isPlaceholder(match[1]!))
      report(start, start + match[0].length - 1, 'url_userinfo')
  }
}

/** A signed URL is a credential until it expires. */
function findSignatures(text: string, report: ReportFinding): void {
  if (!/sig/i.test(text)) return
  for (const match of text.matchAll(/(?:[?&]|%26|\\u0026)(?:sig|x-(?:amz|goog)-signature)(?:=|%3D)/gi)) {
    const start = match.index + match[0].length
    const end = runEnd(text, start, QUERY_VALUE)
    if (end - start >= 8 && !isPlaceholder(text.slice(start, end))) report(start, end, 'url_signature')
  }
}
