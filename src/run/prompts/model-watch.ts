/**
 * Whether the models that an agent asks answer it, as the gateway has it on record. Agents go on for minutes with a login that is refused,
 * and some call it a success when they give up: what the receipts say counts.
 */
import { CraikError } from '../../errors.ts'
import type { Harness } from '../../harnesses/harness.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Receipt } from '../../receipts/schema.ts'
import type { Store } from '../../store/store.ts'

type Trouble = 'login' | 'rate' | 'budget' | 'quota' | 'policy' | 'provider' | 'unreachable'

/** So often in a row, and the agent is not let try again. */
const STRIKES: Readonly<Record<Trouble, number>> = {
  login: 2,
  budget: 2,
  policy: 2,
  quota: 5,
  rate: 5,
  provider: 8,
  unreachable: 8,
}

/** Some wait longer before each try: not answered for so long, in two tries or more, is not answered. */
const PATIENCE_MS: Readonly<Partial<Record<Trouble, number>>> = { provider: 180_000, unreachable: 45_000 }
const WORDS: Readonly<Partial<Record<Trouble, string>>> = {
  rate: 'the provider reports too many requests',
  provider: 'the provider returns errors',
  unreachable: 'the provider is unreachable',
}

/** An agent that tries again. */
export interface Retrying {
  readonly why: string
  readonly tries: number
}

const NOT_RENEWED = 'gateway.login_not_renewed'
const ABOUT_LOGINS = ['gateway.no_credentials', 'gateway.credential', NOT_RENEWED]
const REFUSED = 'its provider rejects the login of this machine'
const LOGIN_WORDS: Readonly<Record<string, string>> = {
  'gateway.credential': 'its login does not belong to this sandbox, or no longer exists on this machine',
}
const COOLING = 'provider.cooling_down'
const NOT_REACHED = 'its provider is unreachable'
const UNREACHED: Readonly<Record<string, string>> = {
  [COOLING]: 'its provider is in cooldown after it was unreachable',
  [NOT_RENEWED]: 'its login has expired, and its issuer is unreachable',
}
const PAGE = 500

export class ModelWatch {
  readonly #store: Store
  readonly #harness: Pick<Harness, 'name' | 'logIn'>
  readonly #sandboxId: string
  readonly #clock: Clock
  #next: number
  #trouble: Trouble | undefined
  #rule: string | undefined
  #count = 0
  #sinceMs = 0
  /** Calls that were begun and have not ended: one of them may be answered. */
  #underway = 0
  #provider: string | undefined
  /** One at a time: each receipt counts once. */
  #reading: Promise<void> = Promise.resolve()

  /** From this number of receipts on. */
  constructor(
    store: Store,
    harness: Pick<Harness, 'name' | 'logIn'>,
    sandboxId: string,
    from: number,
    clock: Clock,
  ) {
    this.#clock = clock
    this.#store = store
    this.#harness = harness
    this.#sandboxId = sandboxId
    this.#next = from
  }

  /** Why the agent should not go on; undefined: it may. */
  async look(): Promise<CraikError | undefined> {
    await this.#read()
    const trouble = this.#trouble
    if (trouble === undefined) return undefined
    const isLate = this.#clock.nowMs() - this.#sinceMs >= (PATIENCE_MS[trouble] ?? Number.POSITIVE_INFINITY)
    const isOver = this.#count >= STRIKES[trouble] || (isLate && this.#count > 1 && this.#underway === 0)
    return isOver ? this.#error(trouble) : undefined
  }

  /** As of the last look; undefined: its last call was answered, or there is nothing to wait for. */
  get retrying(): Retrying | undefined {
    const why = this.#trouble && WORDS[this.#trouble]
    return why === undefined ? undefined : { why, tries: this.#count }
  }

  /** Why its last call was not answered; undefined: it was, or there was none. */
  async last(): Promise<CraikError | undefined> {
    await this.#read()
    return this.#trouble && this.#error(this.#trouble)
  }

  /**
   * Counts tries again from zero, because the agent gets its prompt now. An agent that is given up for what it asked while it started may
   * not have read the prompt yet, and then it never writes it down.
   */
  async restart(): Promise<void> {
    await this.#read()
    this.#count = 0
    this.#sinceMs = this.#clock.nowMs()
  }

  #read(): Promise<void> {
    const read = () => this.#readNew()
    this.#reading = this.#reading.then(read, read)
    return this.#reading
  }

  async #readNew(): Promise<void> {
    for (;;) {
      const rows = await this.#store.read((tables) => tables.receipts.scan(this.#next, PAGE))
      for (const { line } of rows) this.#take((JSON.parse(line) as Receipt).body)
      if (rows.length > 0) this.#next = rows.at(-1)!.seq + 1
      if (rows.length < PAGE) return
    }
  }

  #take(body: Receipt['body']): void {
    if (body.links.sandbox_id !== this.#sandboxId) return
    if (body.kind === 'provider_action' && body.phase === 'begin') this.#underway++
    if (body.kind === 'provider_action' && body.phase === 'end') {
      this.#underway = Math.max(0, this.#underway - 1)
      this.#provider = body.target
      if (body.status === 'passed') this.#note(undefined)
      else this.#note(troubleOf(body.metadata?.failure), undefined)
    } else if (body.capability === 'model.chat' && (body.status === 'denied' || body.status === 'blocked')) {
      const rule = body.decision?.rule ?? ''
      // What is malformed, unknown or not there is between a program and the gateway: it asks otherwise then.
      if (rule.startsWith('gateway.') && !ABOUT_LOGINS.includes(rule)) return
      if (rule === COOLING) this.#provider = body.target
      this.#note(refusalOf(rule, body.metadata?.last_failure), rule)
    }
  }

  #note(trouble: Trouble | undefined, rule?: string): void {
    const isSame = trouble !== undefined && trouble === this.#trouble
    this.#count = isSame ? this.#count + 1 : 1
    if (!isSame) this.#sinceMs = this.#clock.nowMs()
    this.#trouble = trouble
    this.#rule = rule
  }

  #error(trouble: Trouble): CraikError {
    const { name, logIn } = this.#harness
    const details = { harness: name, ...(this.#rule !== undefined && { rule: this.#rule }) }
    switch (trouble) {
      case 'login':
        return new CraikError('no_login', `${name}: ${LOGIN_WORDS[this.#rule ?? ''] ?? REFUSED}`, {
          hint: `log in again on the host, then:  craik accounts --check   (log in: ${logIn})`,
          details,
        })
      case 'rate':
        return new CraikError('quota_exceeded', `${name}: its provider reports too many requests`, {
          hint: 'wait, then continue with --resume',
          details,
        })
      case 'quota':
        return new CraikError('quota_exceeded', `${name}: a quota is exhausted (${this.#rule})`, {
          hint: 'show it:  craik quota show',
          details,
        })
      case 'budget':
        return new CraikError('budget_exceeded', `${name}: a budget is exhausted (${this.#rule})`, {
          details,
        })
      case 'policy':
        return new CraikError('denied', `${name}: calls to its model are denied by rule ${this.#rule}`, {
          details,
        })
      case 'unreachable':
        return new CraikError('provider_failed', `${name}: ${UNREACHED[this.#rule ?? ''] ?? NOT_REACHED}`, {
          hint: `try again later, or end the cooldown:  craik provider failover reset ${this.#provider ?? 'PROVIDER'}`,
          details,
        })
      case 'provider':
        return new CraikError('provider_failed', `${name}: its provider does not respond`, { details })
    }
  }
}

function troubleOf(failure: unknown): Trouble | undefined {
  if (failure === 'cancelled') return undefined
  if (failure === 'unauthorized') return 'login'
  if (failure === 'unreachable') return 'unreachable'
  return failure === 'rate_limited' || failure === 'overloaded' ? 'rate' : 'provider'
}

/** A provider that is given a rest is in the trouble that it was given it for. */
function refusalOf(rule: string, lastFailure: unknown): Trouble {
  if (rule.startsWith('budget.')) return 'budget'
  if (rule.startsWith('quota.')) return 'quota'
  if (rule === 'gateway.credential') return 'login'
  if (rule === NOT_RENEWED) return 'unreachable'
  return rule === COOLING ? (troubleOf(lastFailure) ?? 'provider') : 'policy'
}
