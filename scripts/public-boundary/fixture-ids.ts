/** Ids on public pages: only the few that stand for any id, never one that a real run was given. */
import type { Breach, Rule } from './rule.ts'

/** The ids of all examples, behind any prefix: `rcpt_`, `grant_`, `run_`, `handoff_`, `hold_`, `task_` and the others. */
const FIXTURE_ULIDS: readonly string[] = [...'DEFGH'].map((last) => `01JCQ3V8Z0W4N5T6R7Y8K9M2P${last}`)

const DIGIT = '[0-9A-HJKMNP-TV-Z]'
/** Behind a prefix, or alone when it begins as those of our time do. */
const WHOLE = new RegExp(
  String.raw`(?<![A-Za-z0-9])(?:[A-Za-z]\w*_[0-7]${DIGIT}{25}|01${DIGIT}{24})(?![A-Za-z0-9])`,
  'g',
)
/** As tables write it: the beginning, and perhaps the end. */
const ABBREVIATED = new RegExp(
  String.raw`(?<![A-Za-z0-9])[a-z]\w*_(0${DIGIT}{2,24})(?:…|\.\.\.)(${DIGIT}*)`,
  'g',
)

export const fixtureIds: Rule = {
  name: 'fixture-id',
  instead: `a fixture id, such as rcpt_${FIXTURE_ULIDS[0]}`,
  *find(text): Iterable<Breach> {
    for (const match of text.matchAll(WHOLE)) {
      if (!FIXTURE_ULIDS.includes(match[0].slice(-26))) yield { start: match.index, what: match[0] }
    }
    for (const match of text.matchAll(ABBREVIATED)) {
      const [what, beginning, end] = match
      const isFixture = FIXTURE_ULIDS.some((ulid) => ulid.startsWith(beginning!) && ulid.endsWith(end!))
      if (!isFixture) yield { start: match.index, what }
    }
  },
}
