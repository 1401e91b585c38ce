/**
 * Checks in the gateway's receipts whether an agent's models answer. Some agents retry for minutes with a refused
 * login, and some report success when they give up. Only the receipts count.
 */
import { CraikError } from '../../errors.ts'
import type { Harness } from '../../harnesses/harness.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Receipt } from '../../receipts/schema.ts'
import type { Store } from '../../store/store.ts'

type CallProblem = 'login' | 'rate' | 'budget' | 'quota' | 'policy' | 'provider' | 'unreachable'

/** The number of consecutive failures that stops the agent. */
const STRIKES: Readonly<Record<CallProblem, number>> = {
  login: 2,
  budget: 2,
  policy: 2,
  quota: 5,
  rate: 5,
  provider: 8,
  unreachable: 8,
}

/** Some agents wait longer before each try. After this time without an answer, two tries are enough to stop. */
const PATIENCE_MS: Readonly<Partial<Record<CallProblem, number>>> = { provider: 180_000, unreachable: 45_000 }
const WORDS: Readonly<Partial<Record<CallProblem, string>>> = {
  rate: 'the provider reports too many requests',
  provider: 'the provider returns errors',
  unreachable: 'the provider is unreachable',
}

/** An agent that is retrying. */
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
  readonly #harness: Pick<Harness, 'name' | 'loginCommand'>
  readonly #sandboxId: string
  readonly #clock: Clock
  #next: number
  #trouble: CallProblem | undefined
  #rule: string | undefined
  #count = 0
  #sinceMs = 0
  /** Calls that began and have not ended. One of them may still be answered. */
  #active = 0
  #provider: string | undefined
  /** Reads run one at a time, so that each receipt counts once. */
  #reading: Promise<void> = Promise.resolve()

  /** Counts receipts from the number `from` on. */
  constructor(
    store: Store,
    harness: Pick<Harness, 'name' | 'loginCommand'>,
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

  /** Returns why the agent should stop, or `undefined` when it can continue. */
  async look(): Promise<CraikError | undefined> {
    await this.#read()
    const trouble = this.#trouble
    if (trouble === undefined) return undefined
    const isLate = this.#clock.nowMs() - this.#sinceMs >= (PATIENCE_MS[trouble] ?? Number.POSITIVE_INFINITY)
    const isOver = this.#count >= STRIKES[trouble] || (isLate && this.#count > 1 && this.#active === 0)
    return isOver ? this.#error(trouble) : undefined
  }

  /** The state at the last look. `undefined` when the last call was answered or there is nothing to wait for. */
  get retrying(): Retrying | undefined {
    const why = this.#trouble && WORDS[this.#trouble]
    return why === undefined ? undefined : { why, tries: this.#count }
  }

  /** Returns why the last call was not answered. Returns `undefined` when it was answered, or there was none. */
  async last(): Promise<CraikError | undefined> {
    await this.#read()
    return this.#trouble && this.#error(this.#trouble)
  }

  /**
   * Restarts the count, because the agent gets its prompt now. An agent that is stopped for its calls at startup may
   * not have read the prompt, and then never records it.
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
    if (body.kind === 'provider_action' && body.phase === 'begin') this.#active++
    if (body.kind === 'provider_action' && body.phase === 'end') {
      this.#active = Math.max(0, this.#active - 1)
      this.#provider = body.target
      if (body.status === 'passed') this.#note(undefined)
      else this.#note(troubleOf(body.metadata?.failure), undefined)
    } else if (body.capability === 'model.chat' && (body.status === 'denied' || body.status === 'blocked')) {
      const rule = body.decision?.rule ?? ''
      // A malformed or unknown request concerns only the program and the gateway, and the program then tries another
      // one.
      if (rule.startsWith('gateway.') && !ABOUT_LOGINS.includes(rule)) return
      if (rule === COOLING) this.#provider = body.target
      this.#note(refusalOf(rule, body.metadata?.last_failure), rule)
    }
  }

  #note(trouble: CallProblem | undefined, rule?: string): void {
    const isSame = trouble !== undefined && trouble === this.#trouble
    this.#count = isSame ? this.#count + 1 : 1
    if (!isSame) this.#sinceMs = this.#clock.nowMs()
    this.#trouble = trouble
    this.#rule = rule
  }

  #error(trouble: CallProblem): CraikError {
    const { name, loginCommand: logIn } = this.#harness
    const details = { harness: name, ...(this.#rule !== undefined && { rule: this.#rule }) }
    switch (trouble) {
      case 'login':
        return new CraikError('no_login', `${name}: ${LOGIN_WORDS[this.#rule ?? ''] ?? REFUSED}`, {
          hint: `log in again on the host, then:  craik accounts --check   (log in: ${logIn})`,
          details,
        })
      case 'rate':
        return new CraikError('quota_exceeded', `${name}: its provider reports too many requests`, {
          hint: 'wait, then continue the run:  craik prompt --resume RUN "continue"',
          details,
        })
      case 'quota':
        return new CraikError('quota_exceeded', `${name}: a quota is exhausted (${this.#rule})`, {
          hint: 'show the quotas:  craik quota show',
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

function troubleOf(failure: unknown): CallProblem | undefined {
  if (failure === 'cancelled') return undefined
  if (failure === 'unauthorized') return 'login'
  if (failure === 'unreachable') return 'unreachable'
  return failure === 'rate_limited' || failure === 'overloaded' ? 'rate' : 'provider'
}

/** Returns the problem of a denied call. A provider in cooldown has the problem that caused the cooldown. */
function refusalOf(rule: string, lastFailure: unknown): CallProblem {
  if (rule.startsWith('budget.')) return 'budget'
  if (rule.startsWith('quota.')) return 'quota'
  if (rule === 'gateway.credential') return 'login'
  if (rule === NOT_RENEWED) return 'unreachable'
  return rule === COOLING ? (troubleOf(lastFailure) ?? 'provider') : 'policy'
}
