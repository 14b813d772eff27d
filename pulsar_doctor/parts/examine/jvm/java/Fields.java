// Reads fields of objects, whatever they are declared as. A getter is a method handle of ours, and
// goes with the look: java.lang.reflect.Field keeps one for good that the JVM, since 18, makes a
// class of once it was called often.

package pulsardoctor;

import java.lang.instrument.Instrumentation;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

final class Fields {
    private static final MethodType GETS = MethodType.methodType(Object.class, Object.class);
    private static final MethodHandle[] NONE = {};

    private final Instrumentation instrumentation;
    private final MethodHandles.Lookup lookup = MethodHandles.lookup();
    private final Map<Class<?>, MethodHandle[]> references = new HashMap<>();
    private final Map<Class<?>, Map<String, Field>> byName = new HashMap<>();
    private final Map<Field, MethodHandle> getters = new HashMap<>();
    private final Map<String, Boolean> opened = new HashMap<>();

    Fields(Instrumentation instrumentation) {
        this.instrumentation = instrumentation;
    }

    // What refers to other objects, of a class and those it extends.
    // Asking a class for its fields loads their types: so never of a class of the application.
    MethodHandle[] references(Class<?> type) {
        MethodHandle[] known = references.get(type);
        if (known != null) {
            return known;
        }
        List<MethodHandle> found = new ArrayList<>();
        for (Class<?> each = type; each != null; each = each.getSuperclass()) {
            if (!Walker.ours(each.getName()) && !Walker.theirs(each.getName())) {
                continue;
            }
            for (Field field : declared(each)) {
                Class<?> of = field.getType();
                if (!Modifier.isStatic(field.getModifiers()) && !of.isPrimitive()
                        && of != String.class && of != Class.class) {
                    MethodHandle getter = getter(field);
                    if (getter != null) {
                        found.add(getter);
                    }
                }
            }
        }
        known = found.toArray(NONE);
        references.put(type, known);
        return known;
    }

    static Object value(MethodHandle getter, Object object) {
        try {
            return getter.invokeExact(object);
        } catch (Error serious) {
            throw serious;
        } catch (Throwable never) {
            return null;
        }
    }

    // The value of a field by its name; null where it is null, or there is none of this name.
    Object optional(Object object, String name) {
        MethodHandle getter = object == null ? null : getter(object.getClass(), name);
        return getter == null ? null : value(getter, object);
    }

    // The same of a class of the JDK that the object's own extends, by the end of its name.
    Object inherited(Object object, String end, String name) {
        Class<?> known = object == null ? null : named(object.getClass(), end);
        MethodHandle getter = known == null ? null : getter(known, name);
        return getter == null ? null : value(getter, object);
    }

    // The value of a static field of a class of the JDK; null where this Java has none of that name.
    Object constant(String type, String name) {
        try {
            Field field = Class.forName(type).getDeclaredField(name);
            return open(field) ? lookup.unreflectGetter(field).invoke() : null;
        } catch (Error serious) {
            throw serious;
        } catch (Throwable absent) {
            return null;
        }
    }

    // All that a lambda holds.
    List<MethodHandle> captured(Class<?> lambda) {
        List<MethodHandle> found = new ArrayList<>();
        for (Field field : declared(lambda)) {
            MethodHandle getter = field.getType().isPrimitive() ? null : getter(field);
            if (getter != null) {
                found.add(getter);
            }
        }
        return found;
    }

    boolean has(Object object, String name) {
        return getter(object.getClass(), name) != null;
    }

    private MethodHandle getter(Class<?> type, String name) {
        Map<String, Field> known = byName.get(type);
        if (known == null) {
            known = new HashMap<>();
            for (Class<?> each = type; each != null; each = each.getSuperclass()) {
                for (Field field : declared(each)) {
                    if (!Modifier.isStatic(field.getModifiers())) {
                        known.putIfAbsent(field.getName(), field);
                    }
                }
            }
            byName.put(type, known);
        }
        Field field = known.get(name);
        return field == null ? null : getter(field);
    }

    // The class of this name's end among a class and those it extends; null where there is none.
    static Class<?> named(Class<?> type, String end) {
        for (Class<?> each = type; each != null; each = each.getSuperclass()) {
            if (each.getName().endsWith(end)) {
                return each;
            }
        }
        return null;
    }

    private static Field[] declared(Class<?> type) {
        try {
            return type.getDeclaredFields();
        } catch (LinkageError absent) { // the type of one is not on the class path
            return new Field[0];
        }
    }

    private MethodHandle getter(Field field) {
        MethodHandle known = getters.get(field);
        if (known == null && open(field)) {
            try {
                known = lookup.unreflectGetter(field).asType(GETS);
                getters.put(field, known);
            } catch (IllegalAccessException closed) {
                return null;
            }
        }
        return known;
    }

    private boolean open(Field field) {
        return accessible(field)
                || (openPackage(field.getDeclaringClass()) && accessible(field));
    }

    private static boolean accessible(Field field) {
        try {
            field.setAccessible(true);
            return true;
        } catch (RuntimeException closed) {
            return false;
        }
    }

    // Opens a package of a module to the module of this class, which nobody else is in.
    private boolean openPackage(Class<?> of) {
        String name = of.getName();
        String in = name.substring(0, Math.max(0, name.lastIndexOf('.')));
        Boolean known = opened.get(in);
        if (known != null) {
            return known;
        }
        boolean done = true;
        try {
            Class<?> module = Class.forName("java.lang.Module");
            Method moduleOf = Class.class.getMethod("getModule");
            Map<String, Set<?>> opens = new HashMap<>();
            opens.put(in, Collections.singleton(moduleOf.invoke(Fields.class)));
            Instrumentation.class
                    .getMethod("redefineModule", module, Set.class, Map.class, Map.class, Set.class,
                            Map.class)
                    .invoke(instrumentation, moduleOf.invoke(of), Collections.emptySet(),
                            Collections.emptyMap(), opens, Collections.emptySet(),
                            Collections.emptyMap());
        } catch (ReflectiveOperationException refused) {
            done = false;
        }
        opened.put(in, done);
        return done;
    }
}
