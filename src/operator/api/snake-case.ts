/** Converts camelCase fields to the snake_case fields of JSON, with a type that describes the result. */

type SnakeName<Name extends string> = Name extends `${infer Head}${infer Tail}`
  ? `${Head extends Lowercase<Head> ? Head : `_${Lowercase<Head>}`}${SnakeName<Tail>}`
  : Name

/**
 * Renames the fields of a record and of its nested records. The keys of a record such as an environment are data of the
 * user, which must not be renamed. No response contains one: its type would be `DataKeys`, which does not compile.
 */
export type SnakeCase<T> = T extends string | number | boolean | null | undefined
  ? T
  : T extends readonly (infer Item)[]
    ? readonly SnakeCase<Item>[]
    : string extends keyof T
      ? DataKeys
      : { readonly [Key in keyof T as SnakeName<Key & string>]: SnakeCase<T[Key]> }

type DataKeys = 'a record whose keys are data cannot be renamed'

export function snakeCase<T>(value: T): SnakeCase<T> {
  if (Array.isArray(value)) return value.map(snakeCase) as SnakeCase<T>
  if (value === null || typeof value !== 'object') return value as SnakeCase<T>
  return Object.fromEntries(
    Object.entries(value).map(([key, field]) => [snakeName(key), snakeCase(field)]),
  ) as SnakeCase<T>
}

function snakeName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
