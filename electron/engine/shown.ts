/** Text from outside on a terminal or in a native menu: control and bidi characters are shown, not obeyed. */
export const shown = (text: string): string =>
  text.replace(/[\p{Cc}\p{Cf}]/gu, (c) => `\\u${c.codePointAt(0)!.toString(16).padStart(4, '0')}`);
