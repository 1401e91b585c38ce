/** When a provider says it may be asked again, in each way that they say it. */
import type { IncomingHttpHeaders } from 'node:http'
import { RETRY_AFTER_MS_MAX } from './limits.ts'

/** Milliseconds from the answer on; undefined when it does not say. Times are measured by the server's own clock. */
export function retryAfterMs(headers: IncomingHttpHeaders, retryDelay?: string): number | undefined {
  const asked =
    plainMs(one(headers, 'retry-after-ms')) ??
    afterMs(one(headers, 'retry-after'), headers) ??
    durationMs(retryDelay) ??
    windowMs(headers)
  return asked === undefined ? undefined : Math.min(Math.max(Math.ceil(asked), 0), RETRY_AFTER_MS_MAX)
}

/** Seconds, or an HTTP date. */
function afterMs(value: string | undefined, headers: IncomingHttpHeaders): number | undefined {
  const seconds = plainMs(value)
  return seconds === undefined ? untilMs(value, headers) : seconds * 1000
}

/** The limits that are used up and have yet to be filled again: Anthropic names times, OpenAI durations. */
function windowMs(headers: IncomingHttpHeaders): number | undefined {
  const waits: number[] = []
  for (const [name, value] of Object.entries(headers)) {
    const anthropic = /^anthropic-ratelimit-([a-z-]+)-reset$/.exec(name)?.[1]
    if (anthropic !== undefined && one(headers, `anthropic-ratelimit-${anthropic}-remaining`) === '0')
      waits.push(untilMs(String(value), headers) ?? 0)
    const openai = /^x-ratelimit-reset-([a-z-]+)$/.exec(name)?.[1]
    if (openai !== undefined && one(headers, `x-ratelimit-remaining-${openai}`) === '0')
      waits.push(durationMs(String(value)) ?? 0)
  }
  const longest = Math.max(0, ...waits)
  return longest > 0 ? longest : undefined
}

function untilMs(date: string | undefined, headers: IncomingHttpHeaders): number | undefined {
  // Left to itself the parser takes any number for a year.
  const at = /\d\d:\d\d:\d\d/.test(date ?? '') ? Date.parse(date!) : Number.NaN
  if (Number.isNaN(at)) return undefined
  const now = Date.parse(one(headers, 'date') ?? '')
  return at - (Number.isNaN(now) ? Date.now() : now)
}

/** Such as `6m0s`, `1.5s`, `120ms`. */
function durationMs(text: string | undefined): number | undefined {
  if (text === undefined || text.length > 40) return undefined
  const parts = /^(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?$/.exec(text)
  if (parts === null || text === '') return undefined
  const [hours, minutes, seconds, ms] = parts.slice(1).map((part) => Number(part ?? 0)) as number[]
  return hours! * 3_600_000 + minutes! * 60_000 + seconds! * 1000 + ms!
}

function plainMs(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,12}(?:\.\d{1,6})?$/.test(text.trim()) ? Number(text) : undefined
}

function one(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name]
  return Array.isArray(value) ? value[0] : value
}
