/** Serializes a value as canonical JSON and searches for secrets in the same walk. In doubt it returns nothing. */
import { sortKeys } from '../../lib/canonical-json.ts'
import { type CleanText, CleanTexts } from './clean-texts.ts'
import { isCommandPassword } from './command-passwords.ts'
import { REDACTED_LABEL } from './findings.ts'
import { isPayloadKey } from './payload-keys.ts'
import { DEPTH_MAX, isSecretMember, MAY_NAME_NEXT } from './redact-value.ts'

/** Deeper than any metadata of Craik. Deeper values take the full path. */
const FACTS_DEPTH_MAX = 8
const NAMES_MAX = 2048
/** Longer names rarely repeat. */
const NAME_LENGTH_MAX = 100

interface MemberName extends CleanText {
  /** True when a number or boolean under this name is not a secret, whatever its neighbours are. */
  readonly mayCount: boolean
  /** True when the name can occur in metadata. */
  readonly mayNameFact: boolean
}

/** A cache for a writer of many records. */
export class CleanJson {
  readonly texts = new CleanTexts()
  #names = new Map<string, MemberName>()
  /** Frozen values cannot change, so each is serialized once. */
  readonly #frozen = new WeakMap<object, string>()

  /**
   * Returns the canonical JSON of a value that redaction does not change. Returns `undefined` when redaction would
   * change it, JSON cannot represent it, or only a full check can tell.
   */
  spell(value: unknown): string | undefined {
    return this.#any(value, 0, false)
  }

  /** The same for metadata of which nothing would be dropped: integers, booleans, and references under references. */
  spellFacts(value: unknown): string | undefined {
    return this.#any(value, 0, true)
  }

  /** Returns whether a number under this name is not a secret. */
  mayCount(name: string): boolean {
    return this.#name(name)?.mayCount === true
  }

  #any(value: unknown, depth: number, facts: boolean): string | undefined {
    switch (typeof value) {
      case 'string': {
        const text = this.texts.get(value)
        return facts && text?.isReference === false && value !== REDACTED_LABEL ? undefined : text?.quoted
      }
      case 'number':
        if (Number.isSafeInteger(value)) return `${value}`
        return facts || !Number.isFinite(value) ? undefined : JSON.stringify(value)
      case 'boolean':
        return value ? 'true' : 'false'
      case 'object':
        return value === null ? 'null' : this.#object(value, depth, facts)
      default:
        return undefined
    }
  }

  #object(value: object, depth: number, facts: boolean): string | undefined {
    if (depth > (facts ? FACTS_DEPTH_MAX : DEPTH_MAX / 2)) return undefined
    const isFixed = !facts && Object.isFrozen(value)
    const known = isFixed ? this.#frozen.get(value) : undefined
    if (known !== undefined) return known
    const serialized = Array.isArray(value)
      ? this.#list(value, depth, facts)
      : this.#record(value as Readonly<Record<string, unknown>>, depth, facts)
    if (serialized !== undefined && isFixed && this.#isFixedThroughout(value))
      this.#frozen.set(value, serialized)
    return serialized
  }

  #list(items: readonly unknown[], depth: number, facts: boolean): string | undefined {
    let out = ''
    for (let i = 0; i < items.length; i++) {
      const item = items[i]
      const serialized = this.#any(item, depth + 1, facts)
      if (serialized === undefined) return undefined
      if (typeof item === 'string' && i < items.length - 1 && MAY_NAME_NEXT.test(item)) return undefined
      if (isCommandPassword(items, i)) return undefined
      out += i === 0 ? serialized : `,${serialized}`
    }
    return `[${out}]`
  }

  #record(value: Readonly<Record<string, unknown>>, depth: number, facts: boolean): string | undefined {
    if (Object.getPrototypeOf(value) !== Object.prototype) return undefined
    let out = ''
    for (const key of sortKeys(value)) {
      const member = value[key]
      // JSON omits an undefined member. Metadata lists what it omits.
      if (member === undefined && !facts) continue
      const name = this.#name(key)
      if (name === undefined || key === 'toJSON' || (facts && !name.mayNameFact)) return undefined
      const serialized = this.#any(member, depth + 1, facts)
      if (serialized === undefined) return undefined
      const counts = typeof member === 'number' || typeof member === 'boolean'
      const isCount = counts && (name.mayCount || (key === 'value' && this.#isNamedCount(value)))
      if (!isCount && isSecretMember([key, key], member, Object.entries(value))) return undefined
      out += out === '' ? `${name.quoted}:${serialized}` : `,${name.quoted}:${serialized}`
    }
    return `{${out}}`
  }

  /** Matches `{ name: 'input_tokens', value: 7 }` when the name would also allow the value as its own member. */
  #isNamedCount({ name, key, header }: Readonly<Record<string, unknown>>): boolean {
    return [name, key, header].every((named) => typeof named !== 'string' || this.mayCount(named))
  }

  #name(key: string): MemberName | undefined {
    const known = this.#names.get(key)
    if (known !== undefined) return known
    const text = this.texts.get(key)
    if (text === undefined) return undefined
    const name = {
      ...text,
      mayCount: key !== 'value' && !isSecretMember([key, key], 1, []),
      mayNameFact: text.isReference && !isPayloadKey(key),
    }
    if (key.length > NAME_LENGTH_MAX) return name
    if (this.#names.size >= NAMES_MAX) this.#names = new Map()
    this.#names.set(key, name)
    return name
  }

  #isFixedThroughout(value: object): boolean {
    return Object.values(value).every(
      (member) => typeof member !== 'object' || member === null || this.#frozen.has(member),
    )
  }
}
