/** Authorization and cookie headers, and logins in base64. */
import type { ReportFinding } from './findings.ts'
import { isBareNonSecret, isPlaceholder } from './placeholders.ts'
import type { Separator } from './separators.ts'
import {
  bareExtent,
  type Extent,
  findQuotedExtent,
  lineExtent,
  openingQuote,
  type Quote,
  trimExtent,
} from './value-extents.ts'

/** In this header, any word before something with a digit counts as a scheme, even an unknown one. */
const SCHEME =
  /^(?:bearer|basic|token|apikey|api-key|negotiate|ntlm|dpop|oauth|digest|hawk|signature|aws4-hmac-sha256|hmac|[a-z][\w-]{1,16}(?=[ \t]+[^\s"']{0,64}\d))[ \t]+/i
const SCHEME_WITH_PARAMETERS = /^(?:oauth|digest|hawk|signature|aws4|hmac)/i

/** Masks what follows the scheme. The scheme itself is not secret. */
export function reportAuthorization(
  text: string,
  separator: Separator,
  opened: Quote | undefined,
  report: ReportFinding,
): number | undefined {
  const quote = openingQuote(text, separator.at)
  const start = quote === undefined ? separator.at : quote.at + 1
  const scheme = SCHEME.exec(text.slice(start, start + 96))?.[0] ?? ''
  const at = start + scheme.length
  let extent: Extent
  if (quote !== undefined)
    extent = { start: at, end: Math.max(at, findQuotedExtent(text, quote.at, quote.depth).end) }
  else if (SCHEME_WITH_PARAMETERS.test(scheme)) extent = headerExtent(text, at, opened)
  else extent = trimExtent(text, bareExtent(text, at, separator.percentEncoded), /[,;)\]}]/)
  const value = text.slice(extent.start, extent.end)
  if (isPlaceholder(value) || (scheme === '' && /^[A-Za-z]{0,20}$/.test(value))) return undefined
  const rest = text.slice(extent.end, extent.end + 16)
  if (quote === undefined && isBareNonSecret({ key: 'authorization', value, rest, tight: false }))
    return undefined
  report(extent.start, extent.end, 'authorization')
  return extent.end
}

/** Masks a whole cookie header, because each of its values can be a session. */
export function reportCookies(
  text: string,
  separator: Separator,
  opened: Quote | undefined,
  report: ReportFinding,
): number | undefined {
  // Without a pair near its start the text is prose, and prose is not read to the end of the line.
  if (!/^[^=\n]{1,256}=/.test(text.slice(separator.at, separator.at + 257))) return undefined
  const line = headerExtent(text, separator.at, opened)
  report(line.start, line.end, 'cookie')
  return line.end
}

function headerExtent(text: string, at: number, opened: Quote | undefined): Extent {
  const quote = openingQuote(text, at)
  return quote === undefined ? lineExtent(text, at, opened) : findQuotedExtent(text, quote.at, quote.depth)
}

/** Docker and npm store `user:password` in base64 under `auth`. Other values under `auth` stay. */
export function reportBasicPair(
  text: string,
  separator: Separator,
  report: ReportFinding,
): number | undefined {
  const quote = openingQuote(text, separator.at)
  const extent =
    quote === undefined
      ? bareExtent(text, separator.at, false)
      : findQuotedExtent(text, quote.at, quote.depth)
  if (!isBasicPair(text.slice(extent.start, extent.end))) return undefined
  report(extent.start, extent.end, 'basic_credentials')
  return extent.end
}

/** Returns whether this is the base64 of `user:password`. */
export function isBasicPair(value: string): boolean {
  if (value.length < 6 || value.length > 4096 || !/^[A-Za-z0-9+/_-]+={0,2}$/.test(value)) return false
  return /^[\x20-\x7e]*:[\x20-\x7e]*$/.test(Buffer.from(value, 'base64').toString('latin1'))
}
