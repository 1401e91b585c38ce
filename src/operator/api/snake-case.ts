/** Inside, fields are camelCase; in JSON they are snake_case. One function, and the type that says what it does. */

type SnakeName<Name extends string> = Name extends `${infer Head}${infer Tail}`
  ? `${Head extends Lowercase<Head> ? Head : `_${Lowercase<Head>}`}${SnakeName<Tail>}`
  : Name

/** The fields of a record, and of the records in it, renamed. A record whose keys are data has none to rename. */
export type SnakeCase<T> = T extends string | number | boolean | null | undefined
  ? T
  : T extends readonly (infer Item)[]
    ? readonly SnakeCase<Item>[]
    : { readonly [Key in keyof T as SnakeName<Key & string>]: SnakeCase<T[Key]> }

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
