/**
 * Whether the models that an agent asks answer it, as the gateway has it on record. Agents go on for minutes with a login that is refused,
 * and some call it a success when they give up: what the receipts say counts.
 */
import { CraikError } from '../../errors.ts'
import type { Harness } from '../../harnesses/harness.ts'
import type { Receipt } from '../../receipts/schema.ts'
import type { Store } from '../../store/store.ts'

type Trouble = 'login' | 'rate' | 'budget' | 'quota' | 'policy' | 'provider'

/** So often in a row, and the agent is not let try again. */
const STRIKES: Readonly<Record<Trouble, number>> = {
  login: 2,
  budget: 2,
  policy: 2,
  quota: 5,
  rate: 5,
  provider: 8,
}

const ABOUT_LOGINS = ['gateway.no_credentials', 'gateway.credential']
const REFUSED = 'its provider refuses the login of this machine'
const LOGIN_WORDS: Readonly<Record<string, string>> = {
  'gateway.credential': 'its login is none of this sandbox, or has ended on this machine',
}
const PAGE = 500

export class ModelWatch {
  readonly #store: Store
  readonly #harness: Pick<Harness, 'name' | 'logIn'>
  readonly #sandboxId: string
  #next: number
  #trouble: Trouble | undefined
  #rule: string | undefined
  #count = 0

  /** From this number of receipts on. */
  constructor(store: Store, harness: Pick<Harness, 'name' | 'logIn'>, sandboxId: string, from: number) {
    this.#store = store
    this.#harness = harness
    this.#sandboxId = sandboxId
    this.#next = from
  }

  /** Why the agent should not go on; undefined: it may. */
  async look(): Promise<CraikError | undefined> {
    await this.#read()
    if (this.#trouble === undefined || this.#count < STRIKES[this.#trouble]) return undefined
    return this.#error(this.#trouble)
  }

  /** Why its last call was not answered; undefined: it was, or there was none. */
  async last(): Promise<CraikError | undefined> {
    await this.#read()
    return this.#trouble && this.#error(this.#trouble)
  }

  async #read(): Promise<void> {
    for (;;) {
      const rows = await this.#store.read((tables) => tables.receipts.scan(this.#next, PAGE))
      for (const { line } of rows) this.#take((JSON.parse(line) as Receipt).body)
      if (rows.length > 0) this.#next = rows.at(-1)!.seq + 1
      if (rows.length < PAGE) return
    }
  }

  #take(body: Receipt['body']): void {
    if (body.links.sandbox_id !== this.#sandboxId) return
    if (body.kind === 'provider_action' && body.phase === 'end') {
      if (body.status === 'passed') this.#note(undefined)
      else this.#note(troubleOf(body.metadata?.failure), undefined)
    } else if (body.capability === 'model.chat' && (body.status === 'denied' || body.status === 'blocked')) {
      const rule = body.decision?.rule ?? ''
      // What is malformed, unknown or not there is between a program and the gateway: it asks otherwise then.
      if (rule.startsWith('gateway.') && !ABOUT_LOGINS.includes(rule)) return
      this.#note(refusalOf(rule, body.metadata?.last_failure), rule)
    }
  }

  #note(trouble: Trouble | undefined, rule?: string): void {
    this.#count = trouble !== undefined && trouble === this.#trouble ? this.#count + 1 : 1
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
        return new CraikError(
          'quota_exceeded',
          `${name}: its provider says that there were too many requests`,
          {
            hint: 'wait, then go on with --resume',
            details,
          },
        )
      case 'quota':
        return new CraikError('quota_exceeded', `${name}: a quota has no room (${this.#rule})`, {
          hint: 'see it:  craik quota show',
          details,
        })
      case 'budget':
        return new CraikError('budget_exceeded', `${name}: a budget has no room (${this.#rule})`, { details })
      case 'policy':
        return new CraikError('denied', `${name}: calls to its model are denied by rule ${this.#rule}`, {
          details,
        })
      case 'provider':
        return new CraikError('provider_failed', `${name}: its provider does not answer`, { details })
    }
  }
}

function troubleOf(failure: unknown): Trouble | undefined {
  if (failure === 'cancelled') return undefined
  if (failure === 'unauthorized') return 'login'
  return failure === 'rate_limited' || failure === 'overloaded' ? 'rate' : 'provider'
}

/** A provider that is given a rest is in the trouble that it was given it for. */
function refusalOf(rule: string, lastFailure: unknown): Trouble {
  if (rule.startsWith('budget.')) return 'budget'
  if (rule.startsWith('quota.')) return 'quota'
  if (rule === 'gateway.credential') return 'login'
  return rule === 'provider.cooling_down' ? (troubleOf(lastFailure) ?? 'provider') : 'policy'
}
